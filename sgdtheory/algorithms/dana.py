"""DANA: momentum whose memory grows with the run and whose weight falls (Ferbach et al. 2025)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from sgdtheory._common.arguments import single_number
from sgdtheory.algorithms.linear_method import Coefficients, LinearMethod
from sgdtheory.algorithms.parameter import Parameter, Slider


@dataclass(frozen=True)
class DANA(LinearMethod):
    """Dimension-adapted momentum: `m ← β_t m + g, w ← w − γ(g + r_t m)`, β_t = β t/(t + δ), r_t = r (1 + t)^−κ.

    With β = 1 the memory of m is t/δ steps. DANA-constant has κ = 0 and r about 1/d, d the number of features, and
    DANA-decaying has κ = 1/a, a the exponent of the eigenvalues. The authors' code has r of 0.2 and 0.2/d, and
    δ = 4 + b/a on problems `PowerLaw(a, b)`. With δ = 0 and κ = 0 momentum is constant; `DANA(β, 0, momentum=β)` is
    `Nesterov(β)`.

    >>> import sgdtheory as st
    >>> st.DANA(0.2, damping=6.0, momentum_decay=0.5)
    DANA(momentum_share=0.2, damping=6.0, momentum_decay=0.5, momentum=1.0)

    Args:
        momentum_share: r ≥ 0, weight of the momentum beside the gradient at the first step.
        damping: δ ≥ 0.
        momentum_decay: κ ≥ 0.
        momentum: β between 0 and 1, and below 1 if δ = 0.

    Raises:
        ValueError: if an argument is out of range.

    Reference:
        Ferbach et al. 2025, Dimension-adapted momentum outscales SGD, arXiv:2505.16098; the schedule of β_t is that of
        the authors' code, δ/(δ + t) in place of the paper's δ/(1 + t), which makes the first factors negative.
    """

    start: ClassVar[Sequence[float]] = (1.0, 0.0)
    output: ClassVar[Sequence[float]] = (1.0, 0.0)

    momentum_share: Annotated[
        float,
        Parameter(
            "weight r of the momentum beside the gradient at the first step.",
            Slider("r, first weight of the momentum", 0.0, 1.0, 0.01, 0.2),
        ),
    ]
    damping: Annotated[
        float,
        Parameter(
            "steps δ after which momentum has half its final size; its memory is t/δ steps where β = 1.",
            Slider("δ, damping", 0.0, 20.0, 0.1, 6.0),
        ),
    ]
    momentum_decay: Annotated[
        float,
        Parameter(
            "exponent κ of the fall of that weight.",
            Slider("κ, decay of the momentum's weight", 0.0, 1.0, 0.01, 0.5),
        ),
    ] = 0.0
    momentum: Annotated[float, Parameter("final momentum β.", Slider("β, final momentum", 0.0, 1.0, 0.01, 1.0))] = 1.0

    def __post_init__(self) -> None:
        for name in ("momentum_share", "damping", "momentum_decay", "momentum"):
            value, most = single_number(name, getattr(self, name)), 1.0 if name == "momentum" else math.inf
            if not (0 <= value <= most and math.isfinite(value)):
                words = "between 0 and 1" if name == "momentum" else "at least 0 and finite"
                raise ValueError(f"{name} must be {words}, got {value:g}")
            object.__setattr__(self, name, value)
        if self.damping == 0 and self.momentum == 1:
            raise ValueError("momentum must be below 1 where damping is 0, got 1: nothing would damp the momentum")

    @property
    def step_dependence(self) -> Literal["none", "smooth"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return whether the coefficients change with the step."""
        return "smooth" if self.damping or self.momentum_decay else "none"

    def coefficients(self, rate: Any, step: Any) -> Coefficients:
        """Return A, b, c for the state (w, m)."""
        kept, lost = self.momentum, 1 - self.momentum
        if self.damping:
            kept, lost = kept * step / (step + self.damping), (self.damping + lost * step) / (step + self.damping)
        weight = rate * self.momentum_share * (1 + step) ** -self.momentum_decay
        decay = [[0, weight * kept], [0, lost]]
        return Coefficients([[1, -weight * kept], [0, kept]], [rate + weight, -1], [1, 0], decay)
