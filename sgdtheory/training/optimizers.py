"""The optimizers of a run, each with the settings that only it has; the learning rate is a field of the config."""

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
        ValueError: if a field is out of range.
    """

    momentum: float = 0.0
    """Decay rate of the sum of past gradients."""

    family: ClassVar[Family] = "sgd"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam, with decoupled weight decay known as AdamW (Loshchilov & Hutter 2019).

    >>> from sgdtheory.training import Adam
    >>> Adam(beta2=0.95, weight_decay=0.1).beta1
    0.9

    The learning rate of a matrix has a factor for the width, but its decay has none: a step multiplies input, hidden
    and output weights by 1 − γκ at every width, so that they keep 1/(γκ) steps (Wang & Aitchison 2024, 2405.13698).
    Biases, gains and tensors of a fixed shape do not decay.

    Raises:
        ValueError: if a field is out of range.
    """

    beta1: float = 0.9
    """Decay rate β₁ of the gradient's mean."""
    beta2: float = 0.99
    """Decay rate β₂ of the gradient's second moment."""
    epsilon: float = 1e-8
    """ε at the base width."""
    weight_decay: float = 0.0
    """Weight decay κ of Adam's matrices, decoupled from the gradient: w ← (1 − γκ) w − …, at every width."""

    family: ClassVar[Family] = "adam"

    def __post_init__(self) -> None:
        """Check every field."""
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class SignSGD:
    """signSGD, with momentum known as Signum (Bernstein et al. 2018): `m ← β m + (1 − β) g, w ← w − γ sign(m)`.

    >>> from sgdtheory.training import SignSGD
    >>> SignSGD(momentum=0.9).momentum
    0.9

    Every weight moves by γ, as with Adam, so that it has the same exponents of the width as Adam (THEORY.md, T17).

    Raises:
        ValueError: if a field is out of range.
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
    `β m/(1 − β^{t+2}) + (1 − β) g/(1 − β^{t+1}) = U S Vᵀ`, m ← β m + (1 − β) g. The bias corrections are those of
    `optax.contrib.muon` and `sgdtheory.Muon(nesterov=True)`. Jordan's own code and `torch.optim.Muon` have none, and
    take different steps during about the first 1/(1 − β) (THEORY.md, T39). The singular values of O are between 0.7
    and 1.2, because five Newton–Schulz steps only approximate 1. `s = update_rms √(longer side at the base width)`
    gives s O entries of root mean square update_rms at the base width; the spectral norm γ s does not depend on the
    width (THEORY.md, T17).

    Input and output weights are left to Adam, as in Jordan's code: most rows of an embedding's gradient are 0, and the
    polar factor of a single output's gradient is only its direction. The matrices of a stack, and the positions of a
    kernel with more than two axes, are orthogonalized one by one. An n × m matrix, n ≤ m, costs 20 n² m + 10 n³ more
    operations per step.

    Raises:
        ValueError: if a field is out of range.

    Reference:
        Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks, https://kellerjordan.github.io/posts/muon.
        Liu et al. 2025, Muon is scalable for LLM training, arXiv:2502.16982, which uses one γ for both optimizers with
            update_rms = 0.2.
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
