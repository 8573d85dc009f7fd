"""The state of the page: a problem, a setting, one or two algorithms. The query of a link holds all of it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from sgdtheory.algorithms import DEFAULT, Algorithm, Muon, algorithm_settings, algorithm_text, make_algorithm
from sgdtheory.explore.formulas import filled, plain
from sgdtheory.problems import AbstractProblem, PowerLaw
from sgdtheory.risk import checked_for_risk


class Number(NamedTuple):
    """A number of the state that has a slider.

    Attributes:
        query: its name in a link.
        words: its name and unit, with formulas between dollar signs.
        low, high, step: of the slider, which moves the logarithm of the number where `base` is not 0.
        base: of that logarithm.
        digits: number of significant digits of the slider's values; 0: whole numbers.
    """

    query: str
    words: str
    low: float
    high: float
    step: float
    base: float = 0.0
    digits: int = 6

    def value(self, place: float) -> float:
        """Return the value of the slider at a place."""
        raw = self.base**place if self.base else place
        return float(np.rint(raw)) if self.digits == 0 else float(f"{raw:.{self.digits}g}")

    def place(self, value: float) -> float:
        """Return the place of the slider for a value."""
        return float(np.log(value) / np.log(self.base)) if self.base else float(value)

    @property
    def label(self) -> str:
        """The words as text."""
        return plain(self.words)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value."""
        return self.value(self.low), self.value(self.high)


NUMBERS = {
    "capacity": Number("a", "$a$, capacity exponent: $λ_i = i^{−a}$", 0.8, 4.0, 0.05),
    "source": Number("b", "$b$, source exponent: $s_i = i^{−b}$", 0.8, 9.0, 0.05),
    "noise_variance": Number("noise", "$σ²$, label noise (units of $y²$)", -4.0, 3.0, 0.05, 10.0, 3),
    "precondition": Number("theta", "$θ$, preconditioner $H^{−θ}$ (0: none)", 0.0, 0.9, 0.05),
    "num_features": Number("M", "$M$, number of features", 1.0, 14.0, 0.25, 2.0, 0),
    "num_samples": Number("D", "$D$, data (samples)", 2.0, 12.0, 0.05, 10.0, 3),
    "batch_size": Number("B", "$B$, batch size (samples)", 0.0, 24.0, 0.25, 2.0, 0),
    "learning_rate": Number("rate", "$γ$, learning rate ($1/λ$)", -5.0, 1.0, 0.02, 10.0, 3),
    "overhead": Number("overhead", "$ω$, extra data allowed at $B^*$", 0.05, 1.0, 0.05),
    "rate_factor": Number("factor", "$γ$ of signSGD, Adam, …, relative to the best", -2.0, 2.0, 0.02, 10.0, 3),
}
WITHOUT = {"num_features": "all", "learning_rate": "best"}  # A link and a slider have this word for None.
# The exported page uses these sentences too.
SENTENCES = {
    "number": "[name] must be a number from [low] to [high][also], got [text]",
    "kept": "[error]; it is [value] now",
    "unknown": "[text] is not part of a link to this page; remove it",
    "capacity": "a = [value], but the sum of all λᵢ = i⁻ᵃ is finite only for a > 1: move a up",
    "source": "b = [value], but the initial risk, the sum of all i⁻ᵇ, is finite only for b > 1: move b up",
}
SLOTS = "first", "second"
OF_ONE_OUTPUT = " with one output, where it is normalized SGD; sgdtheory simulate --outputs M has more"
COLOURS = "system", "light", "dark"
SIZES = "normal", "large"


@dataclass(frozen=True)
class State:
    """Everything that the page depends on.

    Attributes:
        capacity, source, noise_variance: a, b and σ² of the power law.
        num_samples: D.
        num_features: M; None: infinitely many.
        batch_size: B of the loss curves and of risk against learning rate; the peak where it has a schedule.
        learning_rate: γ of the loss curves, the peak; None: the best one of each algorithm.
        overhead: extra data that defines B*.
        first, second: algorithms in words, as of `sgdtheory path`; no second one if it is empty.
        colours: "system", "light" or "dark".
        text: "normal" or, for a projector, "large".
        precondition: θ, the power of the preconditioner.
        rate_factor: of an algorithm that is not linear γ is so many times its best one: γ has other units there.
    """

    capacity: float = 2.0
    source: float = 3.0
    noise_variance: float = 1.0
    num_samples: float = 1e6
    num_features: int | None = None
    batch_size: float = 32
    learning_rate: float | None = None
    overhead: float = 0.2
    first: str = "sgd"
    second: str = ""
    colours: str = "system"
    text: str = "normal"
    precondition: float = 0.0
    rate_factor: float = 1.0

    def quick(self, slot: int) -> bool:
        """Return whether all computations for this algorithm take a fraction of a second: it is averaged SGD."""
        return self.algorithms[slot] == DEFAULT

    def is_dark(self, system: bool) -> bool:
        """Return whether the page is dark, on a system that is or is not."""
        return self.colours == "dark" or (self.colours == "system" and system)

    def has_risk(self, slot: int) -> bool:
        """Return whether the risk of this algorithm is known in theory, and computed in less than minutes."""
        if self._turned(slot):
            return False
        try:
            checked_for_risk(self.algorithms[slot])
        except ValueError:
            return False
        return True

    @property
    def unknown(self) -> tuple[str, ...]:
        """A sentence on each algorithm that can be simulated only."""
        return tuple(
            f"{name}: {self._why(slot)}; “Simulate the loss curves” shows its risk along the run"
            f"{OF_ONE_OUTPUT if isinstance(self.algorithms[slot].method, Muon) else ''}"
            for slot, name in enumerate(self.names)
            if not self.has_risk(slot)
        )

    def _why(self, slot: int) -> str:
        """Return why it has no risk here."""
        if self._turned(slot):
            return "its risk in these coordinates takes minutes (sgdtheory risk computes it)"
        return "there is no theory of its risk"

    def _turned(self, slot: int) -> bool:
        return getattr(self.algorithms[slot].method, "basis", "eigenvectors") == "random"

    @cached_property
    def problem(self) -> AbstractProblem:
        """The power law, preconditioned or not, with all features or with M of them.

        Raises:
            ValueError: there is none with such exponents.
        """
        for name in ("capacity", "source"):
            if getattr(self, name) <= 1:
                raise ValueError(filled(SENTENCES[name], {"value": f"{getattr(self, name):g}"}))
        if self.preconditioned_capacity <= 1:
            left = f"a (1 − θ) = {self.preconditioned_capacity:.3g}"
            raise ValueError(f"{left}, but the sum of all λᵢ is finite only above 1: move θ down")
        law = PowerLaw(self.capacity, self.source, noise_variance=self.noise_variance)
        if self.precondition:
            law = law.preconditioned(self.precondition)
        return law if self.num_features is None else law.with_features(self.num_features)

    @property
    def preconditioned_capacity(self) -> float:
        """a (1 − θ), the exponent that decides (THEORY.md T35)."""
        return self.capacity * (1 - self.precondition)

    @cached_property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """One or two.

        Raises:
            ValueError: words that describe none.
        """
        return tuple(make_algorithm(algorithm_settings(text)) for text in (self.first, self.second) if text)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the algorithms for legends; all differ."""
        words = [algorithm_text(each) for each in self.algorithms]
        found = [f"{word}, averaged" if word == "sgd" else word for word in words]
        return (found[0], f"{found[1]} (again)") if found[1:] == found[:1] else tuple(found)

    def checked(self) -> "State":
        """Itself.

        Raises:
            ValueError: nothing can be shown of it, and why.
        """
        _ = self.problem, self.algorithms
        if self.batch_size > self.num_samples:
            raise ValueError(
                f"B = {self.batch_size:g} is more than D = {self.num_samples:g}, too few for one step: lower B or "
                "raise D"
            )
        return self

    @property
    def query(self) -> str:
        """The query of a link that shows this state: all values that are not defaults."""
        told = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                name = NUMBERS[field.name].query if field.name in NUMBERS else field.name
                told[name] = (
                    WITHOUT[field.name] if value is None else value if isinstance(value, str) else digits(value)
                )
        return urlencode(told)

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> tuple["State", list[str]]:
        """Return the state of a link, and a sentence on each part of it that cannot be used.

        >>> State.from_query({"a": "1.5", "B": "many"})[1]
        ["B must be a number from 1 to 1.67772e+07, got 'many'; it is 32 now"]
        """
        state, sentences = cls(), []
        names = {number.query: name for name, number in NUMBERS.items()}
        for key, text in query.items():
            name = names.get(key, key)
            try:
                state = replace(state, **{name: _read(name, key, text)})
            except ValueError as error:
                kept = SENTENCES["kept"] if name in NAMES else "[error]"
                value = _shown(name, getattr(state, name)) if name in NAMES else ""
                sentences.append(filled(kept, {"error": str(error), "value": value}))
        return state, sentences

    @property
    def bare(self) -> "State":
        """Itself without what was computed from it, to be sent to another process."""
        return replace(self)

    def looking_like(self, other: "State") -> "State":
        """Itself in the colours and the text size of another."""
        return replace(self, colours=other.colours, text=other.text)


NAMES = [field.name for field in fields(State)]


def _read(name: str, key: str, text: str) -> Any:
    """Return one value of a link."""
    if name in NUMBERS:
        return None if name in WITHOUT and text == WITHOUT[name] else _number(name, text)
    choices = {"colours": COLOURS, "text": SIZES}
    if name in choices:
        if text not in choices[name]:
            raise ValueError(f"{key} must be {' or '.join(choices[name])}, got {text!r}")
        return text
    if name not in SLOTS:
        raise ValueError(filled(SENTENCES["unknown"], {"text": repr(key[:20])}))
    try:
        return algorithm_text(make_algorithm(algorithm_settings(text))) if text or name == "first" else ""
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _number(name: str, text: str) -> float:
    number = NUMBERS[name]
    low, high = number.ends
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not low <= value <= high:
        also = f" or {WITHOUT[name]}" if name in WITHOUT else ""
        values = {"name": number.query, "low": f"{low:g}", "high": f"{high:g}", "also": also, "text": repr(text[:20])}
        raise ValueError(filled(SENTENCES["number"], values))
    if number.digits == 0:
        return int(np.rint(value))
    return value


def _shown(name: str, value: Any) -> str:
    """Return a value as a link writes it."""
    if value is None:
        return WITHOUT[name]
    return (value or "none") if isinstance(value, str) else f"{value:g}"


def kinds_of(text: str) -> dict[str, str]:
    """Return the parts of an algorithm without its numbers.

    >>> kinds_of("heavy-ball momentum=0.9 cosine")
    {'method': 'heavy-ball', 'schedule': 'cosine'}
    """
    settings = algorithm_settings(text) if text else {}
    return {name: value for name, value in settings.items() if isinstance(value, str)}


def digits(value: float) -> str:
    """A number to the last digit, short where that is the same number.

    >>> digits(1e6), digits(0.1 + 0.2)
    ('1e+06', '0.30000000000000004')
    """
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)
