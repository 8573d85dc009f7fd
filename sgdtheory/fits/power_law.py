"""A power of size, `y = c x^p`, and products of powers, by least squares in logs, with Student's t intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from sgdtheory._common.arguments import positive_array, share_between_0_and_1
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown


@dataclass(frozen=True)
class PowerFit(Shown):
    """`y = c x^p` fitted by least squares in logs (THEORY.md T14); made by `fit_power_law`.

    Attributes:
        coefficient: c.
        exponent: p.
        residual_std: estimated standard deviation of log y around the law; nan with two points.
        num_points, mean_log_x, squares_log_x: of the data; the sum of squared deviations of log x.
    """

    coefficient: float
    exponent: float
    residual_std: float
    num_points: int
    mean_log_x: float
    squares_log_x: float

    def predict(self, x: ArrayLike) -> np.ndarray:
        """c x^p, for positive x."""
        return self.coefficient * positive_array("x", x) ** self.exponent

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the exponent: Student's t with m − 2 degrees of freedom.

        Exact for independent normal errors of log y, with any m. Infinite with two points. With three there is one
        degree of freedom: t = 12.7 at 95% times the one residual, whose size is chance: a quarter of
        the intervals are more than 3.6 times as wide as another quarter. Five points have t = 3.2, and 1.8 times.
        """
        half = self._quantile(level) * self.residual_std / np.sqrt(self.squares_log_x) if self._freedom else np.inf
        return float(self.exponent - half), float(self.exponent + half)

    def prediction_interval(
        self, x: ArrayLike, level: float = 0.95, *, new_measurement: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Interval for y at `x`: of a new measurement, or (new_measurement=False) of the law itself.

        Returns:
            (low, high), arrays of the shape of `x`.
        """
        if not self._freedom:
            return np.zeros_like(self.predict(x)), np.full_like(self.predict(x), np.inf)
        offset = np.log(positive_array("x", x)) - self.mean_log_x
        variance = float(new_measurement) + 1 / self.num_points + offset**2 / self.squares_log_x  # over residual_std²
        factor = np.exp(self._quantile(level) * self.residual_std * np.sqrt(variance))
        return self.predict(x) / factor, self.predict(x) * factor

    @property
    def _freedom(self) -> int:
        return self.num_points - 2

    def _quantile(self, level: float) -> float:
        return float(special.stdtrit(self._freedom, 0.5 + share_between_0_and_1("level", level) / 2))

    def sheet(self) -> Sheet:
        """The exponent with its 95% interval, and the coefficient."""
        quantities = [
            Quantity("exponent", "exponent p", self.exponent, self.interval()),
            Quantity("coefficient", "coefficient c", self.coefficient),
        ]
        return Sheet("y = c x^p", [Table(quantities, legend=f"{self.num_points} points")])


def fit_power_law(x: ArrayLike, y: ArrayLike) -> PowerFit:
    """Least squares of `log y = log c + p log x`.

    >>> import sgdtheory as st
    >>> fit = st.fit_power_law([85, 151, 302, 604, 1200], [950, 1180, 1640, 2350, 3190])
    >>> round(fit.exponent, 2), [round(end, 2) for end in fit.interval()]
    (0.47, [0.43, 0.51])

    Args:
        x, y: (m,) positive numbers; at least two different x.

    Returns:
        PowerFit.

    Raises:
        ValueError: wrong shapes, numbers that are not positive, or a single x.
    """
    x, y = positive_array("x", x), positive_array("y", y)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"x and y must be one-dimensional and of one length, got shapes {x.shape} and {y.shape}")
    if np.unique(x).size < 2:
        raise ValueError(f"x must hold at least 2 different values, got {np.unique(x).size}")
    log_x, log_y = np.log(x), np.log(y)
    deviation = log_x - log_x.mean()
    squares = (deviation**2).sum()
    exponent = (deviation * log_y).sum() / squares
    residuals = log_y - log_y.mean() - exponent * deviation
    std = np.sqrt((residuals**2).sum() / (x.size - 2)) if x.size > 2 else float("nan")
    coefficient = np.exp(log_y.mean() - exponent * log_x.mean())
    return PowerFit(float(coefficient), float(exponent), float(std), x.size, float(log_x.mean()), float(squares))


# ------------------------------------------------------------------ several powers


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
    # Less their means, columns of logs have the full rank only if each x varies by itself.
    if np.linalg.matrix_rank(design - np.r_[0.0, design[:, 1:].mean(0)]) < design.shape[1]:
        raise ValueError(f"{' and '.join(columns)} must vary, each by itself, in enough points, got {log_y.size}")
    numbers, *_ = np.linalg.lstsq(design, log_y)
    freedom = log_y.size - design.shape[1]
    residuals = log_y - design @ numbers
    std = np.sqrt((residuals**2).sum() / freedom) if freedom else float("nan")
    errors = std * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    exponents, each_error = (dict(zip(columns, each[1:].tolist(), strict=True)) for each in (numbers, errors))
    return PowerProduct(float(np.exp(numbers[0])), exponents, each_error, float(std), log_y.size)
