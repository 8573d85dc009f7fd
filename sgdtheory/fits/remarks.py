"""Remarks on reasons to trust the critical batch size of a law less than its interval suggests."""

from collections.abc import Iterator

import numpy as np

from sgdtheory.fits.abstract_law import AbstractStepsLaw, Scatter
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.steps_law import StepsLaw
from sgdtheory.fits.u_shaped_law import UShapedLaw

NEEDED = 0.05  # p-value of c = 0, from which on a law without c does as well
# The remark on the exponent appears from this p-value on. With five batch sizes and steps that scatter by 2% it names
# α = 0.8 in four of five data sets; at 5% it would in one of three.
DOUBTFUL = 0.2


def law_remarks(law: AbstractStepsLaw, convention: Convention, scatter: Scatter | None = None) -> Iterator[str]:
    """Sentences on a fitted law, without a full stop; with c it is tested by a scatter, or its own.

    >>> import sgdtheory as st
    >>> from sgdtheory.fits import law_remarks
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> list(law_remarks(law, st.Convention(reference=16)))
    ['the reference 16 lies outside the batch sizes 64 … 4096']
    """
    low = law.batch_sizes.min()
    high = law.batch_sizes.max()
    inside = f"the batch sizes {low:g} … {high:g}"
    critical = law.critical_batch_size(convention=convention)
    reference = convention.reference_among(law.batch_sizes)
    curved = isinstance(law, UShapedLaw)
    if not low <= reference <= high and not (curved and law.optimal_batch_size >= reference):
        yield f"the reference {reference:g} lies outside {inside}"
    if not (law.b or (curved and law.c)):
        yield "steps do not fall with the batch size, so B* is the convention alone"
    elif isinstance(law, StepsLaw) and reference > law.knee:
        least = (1 + convention.overhead) * reference
        yield (
            f"the reference {reference:g} lies beyond the knee {law.knee:.4g}, where steps hardly fall any more, so B* "
            f"is close to {1 + convention.overhead:g} × {reference:g} = {least:.4g} wherever the knee is: give steps "
            "of smaller batch sizes"
        )
    elif np.isinf(critical):
        yield "no plateau was measured, so B* is not bounded from above"
    elif not low <= critical <= high:
        yield f"B* = {critical:.4g} lies outside {inside}"
    if isinstance(law, StepsLaw):
        yield from _on_shape(law, convention)
    if curved:
        yield from _on_optimum(law, scatter, low, high)


def _on_shape(law: StepsLaw, convention: Convention) -> Iterator[str]:
    """Return the remark that residuals favour another exponent, with what it makes of B*."""
    test = law.shape_test
    if test is None or test.p_value > DOUBTFUL:
        return
    other = test.law.critical_batch_size(convention=convention)
    begin = f"the law's shape is in doubt: α = {test.law.alpha:.3g} fits better (p = {test.p_value:.2g}), with B* = "
    remedy = "fit α too" if test.law.alpha < 1 else "fit α too, or an optimal batch size"
    low, high = law.admitted_exponents
    if low <= test.law.alpha <= high:
        allowed = "the interval allows for it"
    elif low == high:
        allowed = f"the interval assumes α = {low:.3g}"
    else:
        allowed = f"the interval allows α from {low:.3g} to {high:.3g}"
    yield f"{begin}{other:.4g}; {allowed}: {remedy}"


def _on_optimum(law: UShapedLaw, scatter: Scatter | None, low: float, high: float) -> Iterator[str]:
    test = law.curvature_test(scatter)
    best = law.optimal_batch_size
    if test.p_value > NEEDED:
        yield f"c is not needed (p = {test.p_value:.2g}): no optimal batch size is seen, a + b/B does as well"
    elif not low <= best <= high:
        yield f"the optimal batch size {best:.4g} lies outside the batch sizes {low:g} … {high:g}"
