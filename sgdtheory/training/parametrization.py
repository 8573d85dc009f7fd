"""Standard, maximal update (µP) and neural tangent (NTK) parametrization as one table of exponents of the width."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from sgdtheory._common.arguments import checked_name, single_number

Role = Literal["input", "hidden", "output", "vector", "fixed"]
Family = Literal["sgd", "adam", "muon"]
ROLES: tuple[Role, ...] = "input", "hidden", "output", "vector"  # These roles have exponents.
ALL_ROLES: tuple[Role, ...] = *ROLES, "fixed"
EXPONENTS = "multiplier", "init", "sgd_rate", "adam_rate", "muon_rate", "adam_epsilon"
TOLERANCE = 0.3  # A coordinate check passes with slopes up to this; a wrong exponent is wrong by 1/2 or more.


@dataclass(frozen=True, kw_only=True)
class Exponents:
    """Exponents with which one role of weights scales in r = width / base width; all factors are 1 at r = 1.

    >>> from sgdtheory.training import MUP
    >>> MUP.hidden.rate("adam")
    -1.0

    The layer computes `r^multiplier · W x` with `W ~ N(0, (σ r^init)²)`, σ = fan_in^{-1/2} at the base width, and an
    optimizer moves W at the rate `γ r^sgd_rate`, `γ r^adam_rate` or `γ r^muon_rate`; Adam's ε is `ε r^adam_epsilon`.

    Attributes:
        multiplier, init, sgd_rate, adam_rate: exponents of the factors above. signSGD moves W as Adam does.
        muon_rate: exponent of Muon's factor. Its steps of hidden weights have a spectral norm of 1, its other steps are
            Adam's.
        adam_epsilon: exponent of the gradient's entries in the limit of infinite width, so that ε matters as much
            as it does at the base width.
    """

    multiplier: float = 0.0
    init: float = 0.0
    sgd_rate: float = 0.0
    adam_rate: float = 0.0
    muon_rate: float = 0.0
    adam_epsilon: float = 0.0

    def __post_init__(self) -> None:
        """Convert exponents to floats, so that files spell equal exponents alike."""
        for name in EXPONENTS:
            object.__setattr__(self, name, single_number(name, getattr(self, name)) + 0.0)  # This turns −0.0 into 0.0.

    def rate(self, family: Family) -> float:
        """Return the exponent of the learning rate of an optimizer family."""
        return {"sgd": self.sgd_rate, "adam": self.adam_rate, "muon": self.muon_rate}[family]

    def rescaled(self, shift: float) -> "Exponents":
        """Return exponents of the same training (THEORY.md, T18), with r^shift moved from W to the multiplier."""
        return Exponents(
            multiplier=self.multiplier + shift,
            init=self.init - shift,
            sgd_rate=self.sgd_rate - 2 * shift,
            adam_rate=self.adam_rate - shift,
            muon_rate=self.muon_rate - shift,
            adam_epsilon=self.adam_epsilon + shift,
        )


@dataclass(frozen=True, kw_only=True)
class Parametrization:
    """Exponents of every role; `STANDARD`, `MUP` and `NTK` are three of them.

    >>> from sgdtheory.training import MUP
    >>> MUP.with_role("hidden", init=-0.25).hidden.init
    -0.25

    Weights with the role "input" map a fixed dimension to the width (embeddings too), "hidden" the width to the width,
    and "output" the width to a fixed dimension. Biases and gains of width-sized layers are "vector". Tensors with the
    same shape at every width, such as a bias of the outputs, are "fixed" and have no exponents.

    Attributes:
        name: name in tables.
        input, hidden, output, vector: exponents of these roles.
        attention: exponent of d_head in the scale of attention logits: −1/2 (standard) or −1 (µP). At the base width
            the scale is 1/√d_head under either.
    """

    name: str
    input: Exponents = Exponents()
    hidden: Exponents = Exponents()
    output: Exponents = Exponents()
    vector: Exponents = Exponents()
    attention: float = -0.5

    def __post_init__(self) -> None:
        """Convert the exponent of attention to a float."""
        object.__setattr__(self, "attention", single_number("attention", self.attention) + 0.0)

    def role(self, role: Role) -> Exponents:
        """Return the exponents of a role; those of "fixed" are 0, as nothing in it grows with the width."""
        return Exponents() if role == "fixed" else getattr(self, role)

    def with_role(self, role: Role, **exponents: float) -> "Parametrization":
        """Return a copy with some exponents of one role changed."""
        return replace(self, name=f"{self.name}, altered", **{role: replace(self.role(role), **exponents)})

    def rescaled(self, role: Role, shift: float) -> "Parametrization":
        """Return an equivalent parametrization, with the same functions throughout training (THEORY.md, T18)."""
        return replace(self, name=f"{self.name}, rescaled", **{role: self.role(role).rescaled(shift)})


STANDARD = Parametrization(name="standard", hidden=Exponents(init=-0.5), output=Exponents(init=-0.5))
# Yang et al. 2022 (Tensor Programs V), Table 3, and for Muon Yang et al. 2023 (A spectral condition); THEORY.md, T17.
MUP = Parametrization(
    name="mup",
    input=Exponents(sgd_rate=1.0, adam_epsilon=-1.0),
    hidden=Exponents(init=-0.5, adam_rate=-1.0, adam_epsilon=-1.0),
    output=Exponents(init=-1.0, sgd_rate=-1.0, adam_rate=-1.0, muon_rate=-1.0),
    vector=Exponents(sgd_rate=1.0, adam_epsilon=-1.0),
    attention=-1.0,
)
# SGD follows Jacot et al. 2018. The other optimizers have the rates at which activations move by O(r^{-1/2}) and the
# output by O(1).
NTK = Parametrization(
    name="ntk",
    input=Exponents(adam_rate=-0.5, muon_rate=-0.5, adam_epsilon=-0.5),
    hidden=Exponents(multiplier=-0.5, adam_rate=-1.0, adam_epsilon=-1.0),
    output=Exponents(multiplier=-0.5, adam_rate=-0.5, muon_rate=-0.5, adam_epsilon=-0.5),
    vector=Exponents(adam_rate=-0.5, muon_rate=-0.5, adam_epsilon=-0.5),
)
PARAMETRIZATIONS: Mapping[str, Parametrization] = {each.name: each for each in (STANDARD, MUP, NTK)}


class Factors(NamedTuple):
    """The factors that follow from a tensor's exponents at one width."""

    multiplier: float
    init: float
    sgd_rate: float
    rate: float
    epsilon: float


def factors(exponents: Exponents, family: Family, ratio: float) -> Factors:
    """Compute r^exponent for each exponent, with `ratio` = r = width / base width and the family's learning rate."""
    return Factors(
        ratio**exponents.multiplier,
        ratio**exponents.init,
        ratio**exponents.sgd_rate,
        ratio ** exponents.rate(family),
        ratio**exponents.adam_epsilon,
    )


def parametrization(value: "str | Parametrization | Mapping[str, Any]") -> Parametrization:
    """Return a parametrization from its name or its JSON fields; a parametrization is returned unchanged."""
    if isinstance(value, Parametrization):
        return value
    if isinstance(value, Mapping):
        try:
            roles = {role: Exponents(**value[role]) for role in ROLES}
            return Parametrization(name=value["name"], attention=value["attention"], **roles)
        except (KeyError, TypeError):
            raise ValueError(
                f"parametrization must be one of {', '.join(PARAMETRIZATIONS)} or a table with name, attention and the "
                f"exponents of {', '.join(ROLES)}, got {dict(value)}"
            ) from None
    return PARAMETRIZATIONS[checked_name("parametrization", value, PARAMETRIZATIONS)]


def with_exponent_alone(table: Parametrization, name: str) -> Parametrization:
    """Return a table in which each role keeps one of its exponents; it identifies what depends on no other one.

    >>> from sgdtheory.training.parametrization import MUP, with_exponent_alone
    >>> with_exponent_alone(MUP, "init").hidden
    Exponents(multiplier=0.0, init=-0.5, sgd_rate=0.0, adam_rate=0.0, muon_rate=0.0, adam_epsilon=0.0)
    """
    kept = {role: Exponents(**{name: getattr(table.role(role), name)}) for role in ROLES}
    return replace(table, name=f"{name} alone", **kept)


def as_fields(value: "str | Parametrization") -> str | dict[str, Any]:
    """Return the JSON form of a parametrization: its name if it is a known one, else all of its exponents."""
    if isinstance(value, str) or PARAMETRIZATIONS.get(value.name) == value:
        return value if isinstance(value, str) else value.name
    return asdict(value)
