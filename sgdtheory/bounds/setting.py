"""One problem and the B, γ, D at which a bound is asked."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sgdtheory._common.arguments import checked_problem
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.problems import AbstractProblem


class Setting(NamedTuple):
    """One problem and the B, γ, D (scalars, or arrays that broadcast) to look at.

    Example:
        >>> import sgdtheory as st
        >>> st.Setting(st.PowerLaw(2.0, 3.0), 16, 0.5, [1e3, 1e6]).num_samples
        [1000.0, 1000000.0]

    Attributes:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, whole numbers ≥ 1.
        learning_rate: γ > 0, in units of 1/λ.
        num_samples: D ≥ B.
    """

    problem: AbstractProblem
    batch_size: ArrayLike
    learning_rate: ArrayLike
    num_samples: ArrayLike

    @property
    def run(self) -> dict[str, Any]:
        """B, γ and D by their names, as functions of a problem take them."""
        return {
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "num_samples": self.num_samples,
        }


def as_setting(name: str, item: Any) -> Setting:
    """A Setting of what a user may write for one, whose problem looks like one."""
    try:
        setting = Setting(**item) if isinstance(item, Mapping) else Setting(*item)
    except TypeError:
        raise ValueError(
            f"{name} must be (problem, batch_size, learning_rate, num_samples) or a mapping with these names, "
            f"got {item!r}"
        ) from None
    checked_problem(setting.problem)
    return setting
