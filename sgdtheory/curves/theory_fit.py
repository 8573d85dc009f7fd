"""`fit_loss_curves`: the theory's numbers from loss curves, with intervals."""

from collections.abc import Callable, Sequence

import numpy as np

from sgdtheory._common.arguments import share_between_0_and_1, single_number
from sgdtheory.curves.curves_fit import CurvesFit
from sgdtheory.curves.law_fit import (
    checked_curves,
    fit_to,
    general_remarks,
    intervals,
    nothing_identified,
    optimizer_of,
)
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.robust_fit import Observed, RobustFit


def fit_loss_curves(
    curves: LossCurve | Sequence[LossCurve],
    *,
    weight_decay: float | None = None,
    optimizer: str | None = None,
    level: float = 0.95,
    progress: Callable[[str], None] | None = None,
) -> CurvesFit:
    """Fit `loss = L0 + risk of the last iterate` of SGD or Adam on a power law to loss curves (THEORY.md T34).

        r_i ← (1 − x)² r_i + x² (σ²/B),   x = γ_t λ_i,   λ_i = i^−a,   r_i(0) = A i^−b,   loss = L0 + Σ_i r_i

    Six numbers, or seven with weight decay: then an update's effect is that of γ_t/√n_t, where the squared norm n_t
    of the weights grows with updates and shrinks with decay. By Huber's M-estimate on log losses; rows ten standard
    deviations off, where they are few, are spikes and left out. Residuals of a curve are correlated: a process along
    log t is fitted to them, and intervals are profile likelihoods scaled by it. Rows that a curve shares with one
    before it count once.
    Where the losses change no more than they scatter, nothing is identified, and the remark says so.

    Where curves come with batch sizes, what a step multiplies, `x²/B (r_i + Σ_j r_j)`, is included.

    Adam divides gradients by the root of their mean square, in which noise falls with the batch size:

        x_i = γ_t λ_i √(σ²/(B̄ v_i)),   v_i = (σ² + Σ_j r_j)/B + (1 + 1/B) r_i,

    λ_i roots of the covariance's eigenvalues, B̄ the batch size of the curves. Where batch sizes are not known
    `v_i = σ²/B + r_i`, of σ²/B̄ alone: how much of a batch's noise falls with the loss, these curves do not tell.

    Args:
        curves: of one group: runs of one model on one kind of data, with different schedules. One alone is enough for
            a curve like it, but tells noise from slow learning only if its learning rate changes.
        weight_decay: w of AdamW. None: no weight decay, and weights of constant norm.
        optimizer: "sgd", or "adam", in coordinates that are eigenvectors: predictions for other batch sizes at a given
            learning rate need it. None: "adam" for runs with weight decay or with tokens.
        level: of the intervals.
        progress: is called, in a few words, with what is computed.

    Returns:
        CurvesFit.

    Raises:
        ValueError: no curves, of several groups, some with and some without batch sizes, fewer rows than numbers, or
            no optimizer where neither weight decay nor tokens say that it is Adam.

    Example:
        >>> import sgdtheory as st
        >>> curves = st.example_loss_curves("100M")
        >>> names = "cosine_24000", "constant_24000", "wsdcon_9"
        >>> fitted = [curves[name] for name in names]
        >>> # The runs used AdamW. At their own batch size the law of SGD predicts as well, and it is fitted faster.
        >>> found = st.fit_loss_curves(fitted, weight_decay=0.1, optimizer="sgd")
        >>> held_out = curves["cosine_72000"]
        >>> error = found.predict_curve(held_out).loss / held_out.loss - 1
        >>> print(f"L0 = {found.irreducible_loss.value:.2f}, largest error {abs(error).max():.1%}")
        L0 = 2.67, largest error 0.2%

    Reference:
        Luo et al. 2025 (arXiv 2503.12811) for the curves and for an empirical law.
    """
    curves = checked_curves(curves)
    share = share_between_0_and_1("level", level)
    decay = None if weight_decay is None else single_number("weight_decay", weight_decay)
    if decay is not None and not 0 <= decay < np.inf:
        raise ValueError(f"weight_decay must be 0 or more, got {weight_decay}; leave it out where there is none")
    found, data = fit_to(curves, TheoryLaw(decay, optimizer_of(curves, decay, optimizer)), progress)
    if progress is not None:
        progress("intervals of the numbers")
    return _result(found, data, curves, share)


def _result(found: RobustFit, data: Observed, curves: tuple[LossCurve, ...], level: float) -> CurvesFit:
    values, unknown = intervals(found, data, level)
    unknown = [{"floor": "irreducible_loss"}.get(name, name) for name in unknown]
    return CurvesFit(
        capacity=values["capacity"],
        source=values["source"],
        signal=values["signal"],
        noise=values["noise"],
        step_size=values["step_size"],
        irreducible_loss=values["floor"],
        growth=values.get("growth"),
        scatter=found.scale,
        not_identified=tuple(unknown),
        remark=_remark(curves, tuple(unknown), found, data),
        curves=curves,
        level=level,
        fitted=found,
        data=data,
    )


def _remark(curves: tuple[LossCurve, ...], unknown: tuple[str, ...], found: RobustFit, data: Observed) -> str:
    if nothing := nothing_identified(found, data.log_loss):
        return nothing
    remarks = general_remarks(found, "theory")
    sizes = {float(size) for curve in curves if curve.batch_size is not None for size in np.unique(curve.batch_size)}
    if curves[0].batch_size is None:
        remarks.append(
            "batch sizes are not known: the noise is that of a batch, σ²/B, and B* counts in batches of these runs"
        )
    elif len(sizes) == 1:
        remarks.append("all runs used one batch size, so the 1/B scaling of the noise is assumed, not tested")
    if all(np.ptp(curve.learning_rate) == 0 for curve in curves):
        remarks.append("learning rates are constant: only the shape of the curves separates noise from slow learning")
    if unknown:
        remarks.append(
            f"the curves do not determine {', '.join(unknown)}; predictions need only combinations that are determined"
        )
    return "; ".join(remarks)
