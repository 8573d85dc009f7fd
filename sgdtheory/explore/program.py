"""Pieces of the Python beside the figures, for the state of the page."""

from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

from sgdtheory.algorithms import KINDS, Algorithm
from sgdtheory.explore.rates import setting_rate
from sgdtheory.explore.state import State, digits


def setting(state: State, algorithm: bool = False) -> str:
    """Return the arguments for B and D."""
    also = ', "algorithm": algorithm' if algorithm else ""
    return f'{{"batch_size": {digits(state.batch_size)}, "num_samples": {digits(state.num_samples)}{also}}}'


def rate_lines(state: State, slots: Sequence[int]) -> str:
    """Return the lines that set γ of one or two algorithms."""
    said = [_rate(state, slot) for slot in slots]
    if len(set(said)) == 1:
        return f"    rate = {said[0]}"
    first, second = said
    return f"""    if name == "{state.names[0]}":
        rate = {first}
    else:
        rate = {second}"""


def _rate(state: State, slot: int) -> str:
    """Return γ: that of the state, the best, a multiple of it or, where no risk is known, a number."""
    best = "st.optimal_learning_rate(problem, **setting).learning_rate"
    if state.algorithms[slot].linear:
        return best if state.learning_rate is None else repr(state.learning_rate)
    if not state.has_risk(slot):
        return repr(setting_rate(state, slot))
    return best if state.rate_factor == 1 else f"{state.rate_factor!r} * {best}"


def with_risk(state: State) -> list[int]:
    """Return the places of the algorithms whose risk is known in theory."""
    return [slot for slot in range(len(state.algorithms)) if state.has_risk(slot)]


def problem(state: State) -> str:
    """Return the constructor of the problem."""
    law = f"capacity={digits(state.capacity)}, source={digits(state.source)}"
    made = f"st.PowerLaw({law}, noise_variance={digits(state.noise_variance)})"
    if state.precondition:
        made += f".preconditioned({digits(state.precondition)})"
    return made if state.num_features is None else f"{made}.with_features({state.num_features})"


def constructor(algorithm: Algorithm, indent: int) -> str:
    """Return the constructor with the parts that are not defaults, each on its own line if there are several."""
    parts = []
    for field in fields(Algorithm):
        part = getattr(algorithm, field.name)
        if part != getattr(Algorithm(), field.name):
            parts.append(f"{field.name}={_part(part)}")
    if len(parts) > 1:
        space = " " * indent
        return "\n".join(["st.Algorithm(", *(f"{space}    {part}," for part in parts), f"{space})"])
    return f"st.Algorithm({', '.join(parts)})"


def _part(part: Any) -> str:
    if isinstance(part, float):
        return repr(part)
    if hasattr(part, "written"):
        return f"{_name(part)}.from_text({part.text!r})"
    given = [field for field in fields(part) if getattr(part, field.name) != field.default]
    return f"{_name(part)}({', '.join(f'{each.name}={getattr(part, each.name)!r}' for each in given)})"


def _name(part: Any) -> str:
    """Return where a program finds the class: in the library itself or, without a name there, in the registry."""
    kind = type(part)
    if kind.__name__ in dir(import_module("sgdtheory")):
        return f"st.{kind.__name__}"
    place, key = next((place, key) for place, kinds in KINDS.items() for key, each in kinds.items() if each is kind)
    return f'st.algorithms.KINDS["{place}"]["{key}"]'
