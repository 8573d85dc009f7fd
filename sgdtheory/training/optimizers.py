"""The optimizers of a run, and what only one of them can be told; a run's learning rate is the config's."""

from dataclasses import dataclass
from typing import ClassVar

from sgdtheory.training.fields import check_fields
from sgdtheory.training.parametrization import Family


@dataclass(frozen=True, kw_only=True)
class SGD:
    """SGD with momentum.

    >>> from sgdtheory.training import SGD
    >>> SGD(momentum=0.9).momentum
    0.9

    Raises:
        ValueError: a field that is out of range.
    """

    momentum: float = 0.0
    """Decay rate of the sum of past gradients."""

    family: ClassVar[Family] = "sgd"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam without weight decay.

    >>> from sgdtheory.training import Adam
    >>> Adam(beta2=0.95).beta1
    0.9

    Raises:
        ValueError: a field that is out of range.
    """

    beta1: float = 0.9
    """Decay rate β₁ of the gradient's mean."""
    beta2: float = 0.99
    """Decay rate β₂ of the gradient's second moment."""
    epsilon: float = 1e-8
    """ε at the base width."""

    family: ClassVar[Family] = "adam"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class SignSGD:
    """signSGD, with momentum Signum (Bernstein et al. 2018): `m ← β m + (1 − β) g, w ← w − γ sign(m)`.

    >>> from sgdtheory.training import SignSGD
    >>> SignSGD(momentum=0.9).momentum
    0.9

    Every weight moves by γ, as with Adam, whose exponents of the width it has (THEORY.md, T17).

    Raises:
        ValueError: a field that is out of range.
    """

    momentum: float = 0.0
    """Decay rate β of the mean of past gradients."""

    family: ClassVar[Family] = "adam"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Muon:
    """Muon (Jordan et al. 2024) for hidden weights, Adam for all others.

    >>> from sgdtheory.training import Muon
    >>> Muon(momentum=0.9)
    Muon(momentum=0.9, update_rms=0.2, beta1=0.9, beta2=0.99, epsilon=1e-08)

    A hidden matrix moves by −γ s O in step t = 0, 1, …, with O the polar factor U Vᵀ of the Nesterov mean
    `β m/(1 − β^{t+2}) + (1 − β) g/(1 − β^{t+1}) = U S Vᵀ`, m ← β m + (1 − β) g: with the bias corrections of
    `optax.contrib.muon`, as `sgdtheory.Muon(nesterov=True)` has them. Jordan's own code and `torch.optim.Muon` have
    none, and take other steps during the first 1/(1 − β) or so (THEORY.md, T39). All singular values of O are 1, to
    the 0.7 … 1.2 that five Newton–Schulz steps reach. `s = update_rms √(longer side at the base width)` gives O's
    entries the root mean square update_rms at the base width; the spectral norm γ s does not depend on the width
    (THEORY.md, T17).

    What maps to the width or from it to a fixed dimension is left to Adam, as by Jordan: most rows of an embedding's
    gradient are 0, and the polar factor of a single output's is its direction alone. A stack's matrices, and the
    places of a kernel of more than two axes, are orthogonalized one by one. An n × m matrix, n ≤ m, costs 20 n² m +
    10 n³ operations more a step.

    Raises:
        ValueError: a field that is out of range.

    Reference:
        Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks, https://kellerjordan.github.io/posts/muon.
        Liu et al. 2025, Muon is scalable for LLM training, arXiv:2502.16982: one γ for both, with update_rms = 0.2.
    """

    momentum: float = 0.95
    """Decay rate β of the mean of past gradients of hidden weights."""
    update_rms: float = 0.2
    """Root mean square of a hidden weight's step over γ, at the base width."""
    beta1: float = 0.9
    """Decay rate β₁ of the mean of other weights' gradients."""
    beta2: float = 0.99
    """Decay rate β₂ of the second moment of other weights' gradients."""
    epsilon: float = 1e-8
    """Adam's ε of other weights, at the base width."""

    family: ClassVar[Family] = "muon"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


Optimizer = SGD | Adam | SignSGD | Muon
