"""Texts of the page in HTML: the numbers of the setting, and what a visitor should know."""

import html
from collections.abc import Collection, Mapping, Sequence

from sgdtheory.explore.appearance import LIGHT, Palette, number
from sgdtheory.explore.formulas import typeset
from sgdtheory.explore.legends import PALE, symbol
from sgdtheory.explore.state import SLOTS, State

Marks = Mapping[tuple[str, int], Mapping[str, float]]

GROUPS = (  # side by side or, where there is no room, below each other: (answer, mark) → its words on the page
    {
        ("path", "total"): "risk",
        ("path", "bias"): "bias",
        ("path", "variance"): "variance",
        ("path", "theorem7"): "Theorem\u00a07's bound",
        ("path", "missed"): "what\u00a0$M$ features\u00a0miss",
    },
    {
        ("path", "num_steps"): "steps\u00a0$n$",
        ("path", "learning_rate"): "learning rate\u00a0$γ$",
        ("path", "edge"): "stability edge",
    },
    {
        ("samples", "batch_size"): "$B^*$",
        ("samples", "smallest_batch_size"): "least\u00a0$B$",
        ("samples", "num_steps"): "steps at\u00a0$B^*$",
        ("samples", "optimal_risk"): "$R_{opt}(D)$",
        ("samples", "optimal_batch_size"): "$B$\u00a0of $R_{opt}$",
    },
)
TABLE_STYLE = f"""<style>.groups {{ display: flex; flex-wrap: wrap; column-gap: .9em; }}
table {{ border-collapse: collapse; }}
th, td {{ font-weight: normal; text-align: right; vertical-align: bottom; white-space: nowrap;
  min-width: var(--cell, 0); padding: 0 .9em .1em 0; }}
th:first-child {{ padding-right: .3em; min-width: 0; }}
th[scope=col] {{ white-space: normal; opacity: .75; }} th div {{ width: min-content; margin-left: auto; }}
td {{ font-weight: bold; }} td.changed {{ background: var(--note); }} td.old {{ {PALE}; }}</style>"""
NOTE_STYLE = "background: var(--note); padding: .5em .8em; border-left: 4px solid var(--accent)"


def note(sentences: Sequence[str]) -> str:
    """Sentences that stand out; nothing if there are none."""
    told = [html.escape(each[:1].upper() + each[1:] if each[1:2].isalpha() else each) for each in sentences]
    return f"<div style='{NOTE_STYLE}'>{'<br>'.join(dict.fromkeys(told))}</div>" if told else ""


def waiting(late: Mapping[str, float], running: bool) -> str:
    """Return the text of what is being computed, and for how many seconds."""
    told = [f"{what} ({seconds:.0f} s)" for what, seconds in late.items()]
    return f"Computing: {', '.join(told)}" if told else "Computing" if running else "Ready"


def replicas(marks: Marks) -> str:
    """Return the text on the number of runs that simulated points are means of."""
    finished = [marks.get(("simulated", slot), {}).get("replicas") for slot in range(len(SLOTS))]
    told = [f"{each:.0f}" for each in finished if each]
    return f"Means of {' and '.join(told)} simulated runs" if told else ""


def rates(state: State, marks: Marks, pale: Collection[tuple[str, int]]) -> list[float]:
    """γ of the algorithms of which it is known: of those that have it in units of 1/λ, of all where none has."""
    linear = [slot for slot, algorithm in enumerate(state.algorithms) if algorithm.linear]
    known = [slot for slot in linear or range(len(state.algorithms)) if ("path", slot) in marks]
    return [marks["path", slot]["learning_rate"] for slot in known if ("path", slot) not in pale]


def readings(
    names: Sequence[str],
    marks: Marks,
    pale: Collection[tuple[str, int]] = (),
    palette: Palette = LIGHT,
    before: Marks = {},  # noqa: B006 (read alone)
) -> str:
    """The numbers of the setting, a row an algorithm, a column a number that one of them has and is not 0.

    Args:
        names: of the algorithms.
        marks: (answer, algorithm's place) → its numbers.
        pale: answers that are of another state than that of the controls.
        palette: colours of the algorithms.
        before: the numbers before the last move of a control: those that are others now are marked.
    """
    tables = []
    for group in GROUPS:
        told = [key for key in group if any(marks.get((key[0], slot), {}).get(key[1]) for slot in range(len(names)))]
        head = "".join(f"<th scope='col'><div>{typeset(group[key])}</div></th>" for key in told)
        rows = []
        for slot, name in enumerate(names):
            cells = []
            for key in told:
                answer = key[0], slot
                old = before.get(answer, {}).get(key[1])
                cells.append(_cell(key, slot, marks.get(answer, {}), answer in pale, old))
            whose = f"<th scope='row' aria-label='{html.escape(name, quote=True)}'>{_mark(slot, palette)}</th>"
            rows.append(f"<tr>{whose}{''.join(cells)}</tr>")
        tables += [f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"] if told else []
    if not tables:
        return ""
    named = "\u2003".join(f"{_mark(slot, palette)} {html.escape(name)}" for slot, name in enumerate(names))
    return f"{TABLE_STYLE}<div>{named}</div><div class='groups'>{''.join(tables)}</div>"


def _mark(slot: int, palette: Palette) -> str:
    """By which an algorithm's rows are known, in the colour of its lines."""
    return symbol(palette.slots[slot], "", "circle", 1.0, room=12)


def _cell(key: tuple[str, str], slot: int, marks: Mapping[str, float], pale: bool, old: float | None) -> str:
    """Return a number's cell, with all digits for programs."""
    value, name = marks.get(key[1]), f"{'-'.join(key)}-{slot}"
    if value is None:
        return "<td></td>"
    text = number(value, 4)
    if pale:
        return f'<td class="old" data-old="{name}" title="of the setting before">{text}</td>'
    changed = ' class="changed"' if old not in (None, value) else ""
    return f'<td{changed} data-name="{name}" data-value="{value!r}" title="{value!r}">{text}</td>'
