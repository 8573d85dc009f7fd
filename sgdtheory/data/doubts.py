"""Remarks on quantities that the rows of a data set do not identify."""

import numpy as np

from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.exponents import FEWEST_DIRECTIONS, Exponent
from sgdtheory.data.moments import Moments

LIKE_NOISE = 1e-3  # Above this p-value the signal is treated as noise.
# A larger relative standard error of E |x|² or E |y|² leads to a remark. This error is 0.18 for 64 Gaussian rows, and
# 0.7 for any number of rows from Cauchy's law.
MOST_UNCERTAIN = 0.25


def remark_on(moments: Moments, whole: Spectrum, dim: int, exponents: tuple[Exponent, Exponent], noise: float) -> str:
    """Return remarks on constant columns, too few rows, heavy tails and signal like noise, or ""."""
    remarks = []
    if moments.constant:
        names = ", ".join(map(str, moments.constant[:5])) + (", …" if len(moments.constant) > 5 else "")
        remarks.append(f"{len(moments.constant)} columns are constant ({names}): an intercept, or of no use")
    if whole.rows < dim and not whole.exact:
        remarks.append(
            f"{whole.rows:.0f} rows determine as many of {dim} directions: signal in the others counts as noise, and "
            "their eigenvalues are averaged"
        )
    heavy = _heavy_tails(moments)
    if heavy:
        return "; ".join([*remarks, *heavy])
    if noise > LIKE_NOISE:
        remarks.append(
            f"the signal does not differ significantly from noise (p = {noise:.2g}): "
            "the source exponent and B* are not identified; add rows, or check that features and targets match"
        )
    if not np.isfinite(exponents[0].value):
        remarks.append(f"too few rows for exponents: they determine fewer than {FEWEST_DIRECTIONS} directions")
    elif not np.isfinite(exponents[1].value) and noise <= LIKE_NOISE:
        remarks.append("too few rows for the source exponent: only one direction has signal above the noise")
    return "; ".join(remarks)


def _heavy_tails(moments: Moments) -> list[str]:
    """Return remarks on second moments that a few rows dominate, as for Cauchy's law, which has none."""
    names = "features", "targets"
    unknown = "exponents and B*", "the source exponent and B*"
    return [
        f"a few rows dominate the mean square of the {name} (known to ±{100 * error:.0f}%): with tails this heavy, "
        f"or this few rows, {what} are not identified; clip or rescale outliers, or add rows"
        for name, what, error in zip(names, unknown, moments.uncertainty(), strict=True)
        if error > MOST_UNCERTAIN
    ]
