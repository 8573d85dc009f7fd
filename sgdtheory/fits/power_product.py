"""A product of powers, `y = c Π_j x_j^{p_j}`, by least squares in logs, with Student's t intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from sgdtheory._common.arguments import positive_array, share_between_0_and_1
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown


@dataclass(frozen=True, eq=False)
class PowerProduct(Shown):
    """`y = c Π_j x_j^{p_j}` fitted by least squares in logs; made by `fit_power_product`.

    Attributes:
        coefficient: c.
        exponents: name → p of each x.
        standard_errors: name → of p, by the scatter about the law; nan with as many points as numbers.
        residual_std: estimated standard deviation of log y around the law.
        num_points: that were fitted.
    """

    coefficient: float
    exponents: dict[str, float]
    standard_errors: dict[str, float]
    residual_std: float
    num_points: int

    def predict(self, **x: ArrayLike) -> np.ndarray:
        """c Π x^p, for positive x given by name."""
        powers = [positive_array(name, x[name]) ** exponent for name, exponent in self.exponents.items()]
        return self.coefficient * np.prod(np.broadcast_arrays(*powers), axis=0)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the exponent of one x, by Student's t; infinite without a point to spare."""
        freedom = self.num_points - len(self.exponents) - 1
        level = share_between_0_and_1("level", level)
        if freedom < 1:
            return -np.inf, np.inf
        half = float(special.stdtrit(freedom, 0.5 + level / 2)) * self.standard_errors[name]
        return self.exponents[name] - half, self.exponents[name] + half

    def sheet(self) -> Sheet:
        """Exponents with their standard errors."""
        names = [*self.exponents, "coefficient"]
        quantities = [
            Quantity("of", "exponent of", names),
            Quantity("value", "value", [*self.exponents.values(), self.coefficient]),
            Quantity("standard_error", "standard error", [self.standard_errors.get(name) for name in names]),
        ]
        return Sheet("product of powers", [Table(quantities, "exponents", legend=f"{self.num_points} points")])


def fit_power_product(x: Mapping[str, ArrayLike], y: ArrayLike) -> PowerProduct:
    """Least squares of `log y = log c + Σ_j p_j log x_j`.

    >>> from sgdtheory.fits import fit_power_product
    >>> fit = fit_power_product({"B": [1, 2, 4, 4], "D": [10, 10, 10, 40]}, [3, 6, 12, 6])
    >>> {name: round(exponent, 6) for name, exponent in fit.exponents.items()}
    {'B': 1.0, 'D': -0.5}

    Args:
        x: name → (m,) positive numbers; no x a product of powers of the others.
        y: (m,) positive numbers.

    Raises:
        ValueError: numbers that are not positive, different lengths, or too few different x.
    """
    columns, log_y = (
        {name: np.log(positive_array(name, each)) for name, each in x.items()},
        np.log(positive_array("y", y)),
    )
    if any(each.shape != log_y.shape or each.ndim != 1 for each in columns.values()):
        raise ValueError(
            f"y and {', '.join(columns)} must be one-dimensional and of one length, got y of {log_y.shape}"
        )
    design = np.column_stack([np.ones(log_y.size), *columns.values()])
    if np.linalg.matrix_rank(design - np.r_[0.0, design[:, 1:].mean(0)]) < design.shape[1]:
        raise ValueError(f"{' and '.join(columns)} must vary, each by itself, in enough points, got {log_y.size}")
    numbers, *_ = np.linalg.lstsq(design, log_y)
    freedom = log_y.size - design.shape[1]
    residuals = log_y - design @ numbers
    std = np.sqrt((residuals**2).sum() / freedom) if freedom else float("nan")
    errors = std * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    exponents, each_error = (dict(zip(columns, each[1:].tolist(), strict=True)) for each in (numbers, errors))
    return PowerProduct(float(np.exp(numbers[0])), exponents, each_error, float(std), log_y.size)
