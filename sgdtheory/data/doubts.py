"""What the rows of a data set do not tell, in words."""

import numpy as np

from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.exponents import FEWEST_DIRECTIONS, Exponent
from sgdtheory.data.moments import Moments

LIKE_NOISE = 1e-3  # probability of noise, above which its signal is not told from noise
MOST_UNCERTAIN = 0.25  # of E |x|² or E |y|²: Gaussian rows are at 0.18 with 64 of them, Cauchy's at 0.7 with any number


def remark_on(moments: Moments, whole: Spectrum, dim: int, exponents: tuple[Exponent, Exponent], noise: float) -> str:
    """Constant columns, too few rows, heavy tails, signal that may be noise; "" where there is nothing to say."""
    remarks = []
    if moments.constant:
        names = ", ".join(map(str, moments.constant[:5])) + (", …" if len(moments.constant) > 5 else "")
        remarks.append(f"{len(moments.constant)} columns hold one value ({names}): an intercept, or nothing")
    if whole.rows < dim and not whole.exact:
        remarks.append(
            f"{whole.rows:.0f} rows find directions among {dim}: what the others explain counts as noise, and their "
            "eigenvalues are a mean"
        )
    heavy = _heavy_tails(moments)
    if heavy:
        return "; ".join([*remarks, *heavy])
    if noise > LIKE_NOISE:
        remarks.append(
            f"the rows do not tell signal from noise, which looks as much like signal with probability {noise:.2g}: "
            "the source exponent is not known, and B* may be anything; add rows or check the pairing"
        )
    if not np.isfinite(exponents[0].value):
        remarks.append(f"too few rows for exponents: they resolve fewer than {FEWEST_DIRECTIONS} directions")
    elif not np.isfinite(exponents[1].value) and noise <= LIKE_NOISE:
        remarks.append("too few rows for the source exponent: noise drowns the signal of all but one direction")
    return "; ".join(remarks)


def _heavy_tails(moments: Moments) -> list[str]:
    """Second moments that a few rows decide, as those of Cauchy's law, which has none."""
    names = "features", "targets"
    unknown = "exponents and B*", "the source exponent and B*"
    return [
        f"the squares of the {name} rest on few rows (their mean is known to ±{100 * error:.0f}%): with so heavy "
        f"tails, or so few rows, {what} are not known; clip or rescale outliers, or add rows"
        for name, what, error in zip(names, unknown, moments.uncertainty(), strict=True)
        if error > MOST_UNCERTAIN
    ]
