"""The useful batch sizes of steps `Y = a + b/B + c/B²`, in closed form.

With B_opt = √(c/a), u = log(B/B_opt) and ρ = b/(2√(ac)) the data are `B Y = 2√(ac) (cosh u + ρ)`: symmetric about B_opt
on a logarithmic axis. Overheads count from R = max{B_opt, B_ref}, where data are least among batch sizes from the
convention's reference on; both ends are `B_opt e^{±u}`, `cosh u = (1 + ω)(cosh log(R/B_opt) + ρ) − ρ` (THEORY.md T43).
"""

from typing import NamedTuple

import numpy as np


class UsefulRange(NamedTuple):
    """B_opt and the ends of the useful range of laws, (…,) each, named as a `UShapedLaw` has them."""

    optimal_batch_size: np.ndarray
    smallest_batch_size: np.ndarray
    critical_batch_size: np.ndarray


def useful_range(terms: np.ndarray, reference: np.ndarray | float, overhead: float) -> UsefulRange:
    """B_opt, the smallest and the largest useful batch size of laws.

    >>> import numpy as np
    >>> from sgdtheory.fits.useful_range import useful_range
    >>> [round(float(each), 1) for each in useful_range(np.array([1.0, 300.0, 400.0]), 1.0, 0.2)]
    [20.0, 3.8, 104.2]

    Args:
        terms: (…, 3) a, b, c ≥ 0, not all 0.
        reference: B_ref, as far as B_opt does not exceed it.
        overhead: ω.

    Returns:
        UsefulRange. Without a the largest is inf, without c the smallest is 0.
    """
    a, b, c = np.moveaxis(np.asarray(terms, dtype=float), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        best = np.where(c > 0, np.sqrt(c) / np.sqrt(a), 0.0)
        start = np.maximum(best, reference)
        # data B Y at R, less b: without a they fall for ever, towards b
        at_start = np.where(a > 0, a * start, 0.0) + np.where(np.isfinite(start), c / start, 0.0)
        excess = (1 + overhead) * at_start + overhead * b  # aB + c/B at both ends
        root = np.sqrt(np.maximum(excess**2 - 4 * a * c, 0.0))
        largest = np.where(a > 0, (excess + root) / (2 * a), np.inf)
        smallest = np.where(c > 0, np.where(excess > 0, 2 * c / (excess + root), np.inf), 0.0)
    return UsefulRange(best, smallest, largest)
