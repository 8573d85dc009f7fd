"""Hidden models by which the page in Python tells the browser what no widget shows."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false
# Bokeh's properties take more types than they declare.

from typing import Any

from bokeh.models import CustomJS, TextInput, Toggle

from sgdtheory.explore.ledger import Ledger
from sgdtheory.explore.registry import SPECS

TOLD = {"link": "state", "look": "look", "awaited": "awaited"}  # model → function of the browser's `explorer`


def signals() -> dict[str, Any]:
    """By name: whether the system prefers dark; the link, the look, and what is awaited, in words for the browser."""
    made: dict[str, Any] = {"prefers_dark": Toggle(visible=False)}
    for name, function in TOLD.items():
        made[name] = TextInput(visible=False)
        made[name].js_on_change("value", CustomJS(code=f"window.explorer.{function}(cb_obj.value)"))
    return made


def awaited(ledger: Ledger) -> str:
    """Panels of which nothing new has come, `panel:stale` where what they draw is of another state.

    "" where all is known. A panel is known by the one that it stands beneath.
    """
    found: dict[str, str] = {}
    for subject in ledger.running:
        if not ledger.is_awaited(subject):
            continue
        for spec in SPECS.values():
            if subject[0] in spec.filled_by:
                name = spec.beneath or spec.name
                if ledger.is_older(subject) or name not in found:
                    found[name] = "stale" if ledger.is_older(subject) else "empty"
    return " ".join(f"{name}:{found[name]}" for name in sorted(found))
