"""The critical batch size by its definition: the exact risk with the learning rate tuned, and whole steps counted."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, cast, overload

import numpy as np

from sgdtheory._common.arguments import Values, positive_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Algorithm, require_stretching
from sgdtheory.critical.batch_search import Optimum, largest_batch, optimal_batch_size
from sgdtheory.critical.batch_size_curve import BatchSizeCurve, checked_risk_factor
from sgdtheory.critical.curve_search import REACH, batch_size_curve
from sgdtheory.critical.data_sizes import checked_samples, require_learnt, require_several_steps
from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.stated_errors import remark_on_errors
from sgdtheory.critical.step_search import ROUNDING
from sgdtheory.critical.tuned_equivalent import TunedEquivalent
from sgdtheory.critical.tuned_risk import TunedRisk
from sgdtheory.critical.useful_batches import steps_to, useful_batch_sizes
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem
from sgdtheory.risk import as_one_pass, checked_for_risk

Progress = Callable[[str], None] | None
EQUIVALENT_POINTS = 10  # The curve of a nonlinear method has this many points.
FALLS = 0.9  # A remark says that B* falls if it is below this share of a B* for fewer samples.


@dataclass(frozen=True)
class CriticalBatchSize(Shown, Generic[Values]):
    """B* of one problem (THEORY.md T12) at one data size D, or an array of them, and the curves behind it.

    Numbers for a single D, arrays of the shape of `num_samples` otherwise.

    Attributes:
        batch_size: B*, the largest B with `B f_D(B) ≤ (1 + overhead) D`.
        learning_rate: γ with which B* reaches the optimal risk in `num_steps`.
        num_steps: `f_D(B*)`.
        real_batch_size: `(1 + overhead) D/n` for the fewest n with which a B that need not be whole can do: B* without
            its rounding, for exponents.
        optimal_risk: `R_opt(D) = min_B min_γ Δ`, in units of y².
        optimal_batch_size: the B that attains it.
        optimal_learning_rate: the γ that attains it.
        rate_batch_size: the largest B with `R(D, B) ≤ risk_factor · R_opt(D)`: it keeps the rate, not the risk.
            Of Lion and of normalized SGD it may be too small (docs/optimizers.md, "Accuracy of the theory").
        num_samples: D.
        overhead, risk_factor: the two conventions.
        curves: for each data size R(D, B), f_D(B) and the overhead, for batch sizes from 1 to 10 B* or D/2.
        remark: what makes this B* other than it seems; empty as a rule.
        smallest_batch_size: the least B that D (1 + overhead) samples allow, as B* is the largest: 1 where noise is the
            same whatever B, as with every linear method, but for what remark says; above 1 where small batches waste
            data.
    """

    figure: ClassVar[str] = "critical_batch_size"

    batch_size: Values
    learning_rate: Values
    num_steps: Values
    real_batch_size: Values
    optimal_risk: Values
    optimal_batch_size: Values
    optimal_learning_rate: Values
    rate_batch_size: Values
    num_samples: Values
    overhead: float
    risk_factor: float
    curves: tuple[BatchSizeCurve, ...] = field(repr=False)
    remark: str
    smallest_batch_size: Values = cast("Any", 1.0)

    @property
    def curve(self) -> BatchSizeCurve:
        """The curve, of a single data size.

        Raises:
            ValueError: there are several data sizes, or it was not computed.
        """
        if not self.curves:
            raise ValueError("curve was not computed, got curve=False; call critical_batch_size with curve=True")
        if len(self.curves) != 1:
            raise ValueError(f"curve is that of a single num_samples, got {len(self.curves)}; use curves, one for each")
        return self.curves[0]

    def sheet(self) -> Sheet:
        """B* at each data size, and what goes with it."""
        quantities = [
            Quantity("num_samples", "D", self.num_samples),
            Quantity("critical_batch_size", "B*", self.batch_size),
            Quantity("num_steps", "steps", self.num_steps),
            Quantity("learning_rate", "γ at B*", self.learning_rate, digits=5),
            Quantity("optimal_risk", "R_opt, y²", self.optimal_risk, digits=5),
            Quantity("optimal_batch_size", "at B", self.optimal_batch_size),
            Quantity("optimal_learning_rate", "and γ", self.optimal_learning_rate),
            Quantity("rate_batch_size", "rate B", self.rate_batch_size),
            Quantity("real_batch_size", "B*, not rounded", self.real_batch_size),
            Quantity("smallest_batch_size", "least B", self.smallest_batch_size),
        ]
        hidden, legend = (
            ["real_batch_size"],
            [
                f"B*: the largest batch size that reaches R_opt(D) from {1 + self.overhead:.4g} D samples",
                f"rate B: the largest with at most {self.risk_factor:g} R_opt from D samples",
            ],
        )
        if np.any(np.asarray(self.smallest_batch_size) > 1):
            legend.append("least B: a smaller one needs more data than B*")
        else:
            hidden.append("smallest_batch_size")
        table = Table(quantities, "rows", hidden=hidden, legend=";\n".join(legend))
        return Sheet("critical batch size, samples", [table], [self.remark])


@overload
def critical_batch_size(
    problem: AbstractProblem,
    *,
    num_samples: float,
    overhead: float = 0.2,
    risk_factor: float = 2.0,
    curve: bool = True,
    algorithm: Algorithm = ...,
    progress: Progress = ...,
) -> CriticalBatchSize[float]: ...
@overload
def critical_batch_size(
    problem: AbstractProblem,
    *,
    num_samples: ArrayLike,
    overhead: float = 0.2,
    risk_factor: float = 2.0,
    curve: bool = True,
    algorithm: Algorithm = ...,
    progress: Progress = ...,
) -> CriticalBatchSize[np.ndarray]: ...
def critical_batch_size(
    problem: AbstractProblem,
    *,
    num_samples: ArrayLike,
    overhead: float = 0.2,
    risk_factor: float = 2.0,
    curve: bool = True,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
    progress: Progress = None,
) -> CriticalBatchSize:
    """Critical batch size of averaged mini-batch SGD, or of any algorithm, learning rate tuned (THEORY.md T12).

        R(D, B) = min_γ Δ(B, γ, D),   R_opt(D) = min_B R(D, B),   f_D(B) = min {n : min_γ Δ(B, γ, nB) ≤ R_opt(D)},
        B* = max {B : B f_D(B) ≤ (1 + overhead) D}

    Exact in whole batch sizes and steps (numbers of steps above 1e8 to 1e-8 relative). With fixed steps and γ every
    term of the risk falls with B; so n steps can do iff B = (1 + overhead) D/n can, and B* follows from the fewest.

    Of methods that are not linear, by deterministic equivalents, to a few percent: small batches waste data
    there, the risk is U-shaped in B, and beside the largest useful B there is a smallest one. Numbers of steps up to 16
    are all tried, and up to D = 400 all others; beyond, every minimum that a scan over log n shows. Where the stated
    error of the risk at B* or at the optimum is 5% or more, `remark` says what B* may be.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem with a signal that can be learnt.
        num_samples: D from 2 to 1e20; scalar or array. It need not be whole: ⌊D/B⌋ steps, (1 + overhead) D samples.
        overhead: ω > 0, extra data relative to linear scaling.
        risk_factor: the rate batch size is the largest whose best risk with D samples is within this factor > 1 of
            the optimal risk.
        curve: whether to compute the curves, which take more than half of the time.
        algorithm: what is run; by default averaged SGD with constant learning rate and batch size. Where the batch size
            varies, B is its mean over the run, not rounded in between. With LocalSGD B and B* are one worker's: K B*
            samples in a step, K H B* in a round, of D seen by all workers.
        progress: called with how far the search is, in words, as it goes on: `print` for example.

    Returns:
        CriticalBatchSize, with arrays of the shape of `num_samples`.

    Raises:
        ValueError: an argument outside its range, a problem without signal or one of which D samples teach nothing, one
            step with all samples that is best, B* > D (possible for overheads above 1), or a schedule that is a
            function of the step.

    Example:
        >>> import sgdtheory as st
        >>> found = st.critical_batch_size(st.PowerLaw(2, 3), num_samples=[1e4, 1e6], curve=False)
        >>> found.batch_size, found.num_steps
        (array([ 41., 228.]), array([ 292., 5256.]))

    Reference:
        Zhang et al., arXiv 2410.21676, Definition 3.
    """
    linear = checked_for_risk(algorithm).linear
    require_stretching(algorithm, "critical_batch_size")
    samples = checked_samples(num_samples, algorithm.workers)
    overhead = positive_number("overhead", overhead)
    problem = as_one_pass(problem, (1 + overhead) * samples)
    tuned = TunedRisk(problem, algorithm) if linear and not isinstance(problem, FiniteSampleProblem) else None
    risk_factor = checked_risk_factor(risk_factor)

    def report(text: str) -> None:
        if progress:
            progress(text)

    def solved(size: float, number: int) -> CriticalBatchSize:
        asked = size, overhead, risk_factor, bool(curve)
        begin = f"D = {size:g}" + (f", {number} of {samples.size}" if samples.size > 1 else "")
        report(begin)
        if tuned is None:  # its searches begin where others have ended: by itself, each D has one answer
            return _solve_equivalent(TunedEquivalent(problem, algorithm), *asked)
        each = size / tuned.workers
        least_risk = LeastRisk(tuned, lambda count: report(f"{begin}: γ is tuned for {count} B and n"))
        return of_all_workers(_solve(least_risk, each, *asked[1:]), tuned.workers)

    found = [solved(float(value), number) for number, value in enumerate(samples.flat, 1)]
    if samples.ndim == 0:
        return found[0]
    names = [entry.name for entry in fields(CriticalBatchSize) if entry.type is Values]
    arrays = {name: np.array([getattr(one, name) for one in found]).reshape(samples.shape) for name in names}
    remarks = [one.remark for one in found]
    if tuned is not None:
        remarks.append(_falling(tuned, found))
    remark = "; ".join(dict.fromkeys(each for each in remarks if each))
    return replace(found[0], **arrays, curves=tuple(one.curve for one in found if one.curves), remark=remark)


def of_all_workers(found: CriticalBatchSize, workers: int) -> CriticalBatchSize:
    """Return the result with the samples of all workers; B, B* and numbers of steps are those of one."""
    if workers == 1:
        return found
    curves = tuple(replace(each, samples_needed=workers * each.samples_needed) for each in found.curves)
    return replace(found, num_samples=workers * np.asarray(found.num_samples)[()], curves=curves)


def _solve(
    least_risk: LeastRisk, samples: float, overhead: float, risk_factor: float, with_curve: bool
) -> CriticalBatchSize:
    budget = (1 + overhead) * samples * (1 + ROUNDING)
    best = optimal_batch_size(least_risk, samples, budget)
    remark = remark_on_optimum(least_risk, best, budget)
    require_learnt(least_risk.tuned, samples, best.risk)
    steps = float(np.floor(samples / best.batch))
    require_several_steps(samples, steps)
    # One step with more than D samples at once is no batch size of D samples, even if it reaches what they attain.
    found = largest_batch(least_risk, budget, best.risk, best, all_data=False, first=2.0)
    rounded = samples * (1 + ROUNDING)
    keeping = largest_batch(
        least_risk, rounded, risk_factor * best.risk, best, all_data=True, first=least_risk.tuned.first_steps
    ).batch
    critical = found.batch
    _require_within(critical, samples, overhead)
    alone = critical == best.batch  # one that is the best already reaches its own risk with all data
    # The search tunes γ as well as it takes to compare the risk with the target; what is returned is the best γ.
    rate = best.rate if alone else float(least_risk(np.array([critical]), np.array([found.steps])).rate[0])
    return CriticalBatchSize(
        batch_size=critical,
        learning_rate=rate,
        num_steps=steps if alone else found.steps,
        real_batch_size=found.real,
        optimal_risk=best.risk,
        optimal_batch_size=best.batch,
        optimal_learning_rate=best.rate,
        rate_batch_size=keeping,
        num_samples=samples,
        overhead=overhead,
        risk_factor=risk_factor,
        curves=(batch_size_curve(least_risk, samples, best.risk, (best.batch, critical, keeping)),)
        if with_curve
        else (),
        remark=remark,
    )


def remark_on_optimum(least_risk: LeastRisk, best: Optimum, budget: float) -> str:
    """Return the caveats of B*, given that (1 + ω) D samples may be used."""
    remarks = []
    if least_risk.tuned.problem.noise_variance == 0:
        remarks.append("without label noise only the stability limit bounds the critical batch size")
    elif best.batch > 1:
        remarks.append(
            "the optimal risk is attained at a batch size above 1 (optimal_batch_size); smaller ones need more data"
        )
    one = least_risk(np.array([budget]), np.ones(1), best.risk)
    if least_risk.tuned.first_steps == 1 and one.risk[0] <= best.risk:
        remarks.append(remark_on_one_step(budget * least_risk.tuned.workers))
    return "; ".join(remarks)


def remark_on_one_step(budget: float) -> str:
    """Return the remark that one step with (1 + ω) D samples reaches the optimal risk as well."""
    return (
        f"one step with {budget:g} samples also reaches the optimal risk; B* is the largest batch size up to "
        "num_samples that takes at least two steps"
    )


def _solve_equivalent(
    tuned: TunedEquivalent, samples: float, overhead: float, risk_factor: float, with_curve: bool
) -> CriticalBatchSize:
    """Solve for a method whose risk is U-shaped in B."""
    found = useful_batch_sizes(tuned, samples, overhead, risk_factor)
    best = found.best
    critical = found.largest
    _require_within(critical.batch, samples, overhead)
    sizes = np.unique(np.round(np.geomspace(1, min(REACH * critical.batch, samples / 2), EQUIVALENT_POINTS)))
    remarks = [remark_on_one_step((1 + overhead) * samples)] if found.one_step else []
    remarks.append(remark_on_errors(tuned, found, samples))
    return CriticalBatchSize(
        batch_size=critical.batch,
        learning_rate=critical.tuned.rate,
        num_steps=critical.steps,
        real_batch_size=found.real,
        optimal_risk=best.tuned.risk,
        optimal_batch_size=best.batch,
        optimal_learning_rate=best.tuned.rate,
        rate_batch_size=found.keeping,
        num_samples=samples,
        overhead=overhead,
        risk_factor=risk_factor,
        curves=(_equivalent_curve(tuned, samples, best.tuned.risk, sizes),) if with_curve else (),
        remark="; ".join(each for each in remarks if each),
        smallest_batch_size=found.smallest,
    )


def _require_within(critical: float, samples: float, overhead: float) -> None:
    """No batch size is larger than D.

    Raises:
        ValueError: B* is.
    """
    if critical > samples:
        raise ValueError(
            f"overhead must leave a critical batch size of at most num_samples, got {overhead:g}, with which it is "
            f"{critical:g} at num_samples {samples:g}; up to 1 it always does"
        )


def _equivalent_curve(tuned: TunedEquivalent, samples: float, risk: float, sizes: np.ndarray) -> BatchSizeCurve:
    with_all = [tuned.least(size, np.floor(samples / size)) for size in sizes.tolist()]
    steps, rate = np.array([steps_to(tuned, size, np.floor(samples / size), risk) for size in sizes.tolist()]).T
    rates, risks = np.array(with_all).T
    return BatchSizeCurve(sizes, rates, risks, steps, rate, sizes * steps, sizes * steps / samples - 1)


def _falling(tuned: TunedRisk, found: list[CriticalBatchSize]) -> str:
    """Return the remark on a B* that falls as D grows: the stability edge limits the risk there, not noise."""
    ordered = sorted(found, key=lambda one: one.num_samples)
    sizes = [one.real_batch_size for one in ordered]
    drops = [k for k in range(1, len(sizes)) if sizes[k] < FALLS * max(sizes[:k])]
    if not drops:
        return ""
    last = min(drops, key=lambda k: sizes[k])
    first = int(np.argmax(sizes[:last]))
    before = ordered[first]
    after = ordered[last]
    text = (
        f"B* falls from {before.batch_size:g} at D = {before.num_samples:g} to {after.batch_size:g} at "
        f"D = {after.num_samples:g}"
    )
    if not tuned.algorithm.steady:
        return text
    batches = np.array([before.optimal_batch_size, after.optimal_batch_size])
    edges = tuned.edge(batches, np.ones(2))  # of equal steps: the same for all n
    shares = np.array([before.optimal_learning_rate, after.optimal_learning_rate]) / edges
    if shares[1] <= shares[0]:
        return text
    return (
        f"{text}: the remaining signal has small eigenvalues, and the best learning rate rises from {shares[0]:.2f} "
        f"to {shares[1]:.2f} of the stability limit, beyond which no batch size compensates for fewer steps"
    )
