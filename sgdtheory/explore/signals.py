"""Hidden models by which the page in Python tells the browser what no widget shows."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# Bokeh's properties take more types than they declare.

from typing import Any

from bokeh.models import CustomJS, TextInput, Toggle

from sgdtheory.explore.ledger import Ledger
from sgdtheory.explore.registry import JOBS, SHOWN_IN, SPECS

# A change of a model calls this function of the browser's `explorer`.
TOLD = {"link": "state", "look": "look", "awaited": "awaited"}


def signals() -> dict[str, Any]:
    """Return by name whether the system prefers dark, the link, the look, and what is awaited, as words."""
    made: dict[str, Any] = {"prefers_dark": Toggle(visible=False)}
    for name, function in TOLD.items():
        made[name] = TextInput(visible=False)
        made[name].js_on_change("value", CustomJS(code=f"window.explorer.{function}(cb_obj.value)"))
    return made


def awaited(ledger: Ledger) -> str:
    """Return the panels that wait for a new answer, `panel:stale` where an older one is drawn, or `panel:empty`.

    It is "" where all is known. A panel beneath another one goes by the name of the upper one.
    """
    found: dict[str, str] = {}
    for subject in ledger.running:
        job = JOBS[subject[0]]
        if job.depends_on is None or not ledger.is_awaited(subject):
            continue
        for panel in SHOWN_IN[job.answer]:
            name = SPECS[panel].beneath or panel
            if ledger.is_older(subject) or name not in found:
                found[name] = "stale" if ledger.is_older(subject) else "empty"
    return " ".join(f"{name}:{found[name]}" for name in sorted(found))
