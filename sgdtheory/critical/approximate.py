"""The critical batch size from a few hundred risks, usually within 1%: what a picture needs, for any algorithm."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.shown import Sheet, Shown, columns_sheet
from sgdtheory.algorithms import Algorithm, checked_algorithm, require_stretching
from sgdtheory.critical.data_sizes import checked_samples, require_learnt, require_several_steps
from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.step_search import fewest_enough
from sgdtheory.critical.tuned_risk import TunedRisk
from sgdtheory.problems import AbstractProblem

# Numbers of steps per decade at which the risk of D samples is computed, and how well its least log is known there.
PER_DECADE = 1.5
ROUGHLY = 1e-4
# Up to so many steps every n is computed, since one may be better than two.
EVERY_FEW_STEPS = 4.0


@dataclass(frozen=True)
class ApproximateCriticalBatchSize(Shown):
    """B* of one problem, usually within 1%, and the risk against batch size behind it; B and n need not be whole.

    Attributes:
        batch_size: B*, about `CriticalBatchSize.real_batch_size`.
        num_steps: n with which B* reaches the optimal risk, from (1 + overhead) D samples.
        learning_rate: γ with which it does.
        optimal_risk: `R_opt(D)`, in units of y², to some 0.1%.
        optimal_batch_size: a B that attains it, of those below.
        num_samples: D.
        overhead: ω.
        batch_sizes: (K,) B = D/n of even n, increasing.
        learning_rates: (K,) the best γ with D samples.
        risks: (K,) `R(D, B) = min_γ Δ(B, γ, D)`.
    """

    batch_size: float
    num_steps: float
    learning_rate: float
    optimal_risk: float
    optimal_batch_size: float
    num_samples: float
    overhead: float
    batch_sizes: np.ndarray = field(repr=False)
    learning_rates: np.ndarray = field(repr=False)
    risks: np.ndarray = field(repr=False)

    def risk_at(self, batch_size: ArrayLike) -> np.ndarray:
        """R(D, B) between the computed ones, to 10% where it bends: shaped like `batch_size`, nan beyond them."""
        line = PchipInterpolator(np.log(self.batch_sizes), np.log(self.risks), extrapolate=False)
        return np.exp(line(np.log(np.asarray(batch_size, dtype=float))))

    def sheet(self) -> Sheet:
        """B* and what goes with it."""
        columns = {
            "D": self.num_samples,
            "B*": self.batch_size,
            "steps": self.num_steps,
            "γ": self.learning_rate,
            "R_opt, y²": self.optimal_risk,
            "at B": self.optimal_batch_size,
        }
        notes = [f"overhead {self.overhead:.3g}; usually within 1%, not rounded to whole numbers"]
        return columns_sheet("critical batch size, samples", columns, notes)


def approximate_critical_batch_size(
    problem: AbstractProblem,
    *,
    num_samples: float,
    overhead: float = 0.2,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
) -> ApproximateCriticalBatchSize:
    """B* to 1% in 29 of 30 power laws, in less time than `critical_batch_size`: for pictures and scans.

    From the tuned risk of n steps when B need not be whole (THEORY.md T12):

        ρ_D(n) = min_γ Δ(D/n, γ, n),   R_opt ≈ min_n ρ_D(n),   B* ≈ (1 + ω) D / min {n : ρ_{(1+ω)D}(n) ≤ R_opt}

    ρ_D is computed at a few even n, and the fewest steps are searched with B not rounded. In 220 random power laws (a
    from 1.1 to 3, b from 1.1 to 6, σ² from 0.01 to 10, D from 300 to 10⁸) B* was within 1% of the exact one in 214, and
    off by more than 5% in four, by a factor of 2 at most. These four have b > 4, σ² > 2 and 2 to 70 steps: R_opt is
    that of few steps next to the stability edge, or the best γ jumps from one basin to another as n changes. Take
    `critical_batch_size` where that matters. Of LocalSGD B is
    one worker's, and to some 10% where rounds are long: ρ then depends on where in a round a run ends.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem with a signal that can be learnt.
        num_samples: D from 2 to 1e20.
        overhead: ω > 0, extra data relative to linear scaling.
        algorithm: what is run; by default averaged SGD with constant learning rate and batch size.

    Returns:
        ApproximateCriticalBatchSize.

    Raises:
        ValueError: an argument outside its range, a problem without signal, or D samples of which nothing is learnt or
            with which one step is best.

    Example:
        >>> import sgdtheory as st
        >>> cosine = st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
        >>> found = st.approximate_critical_batch_size(st.PowerLaw(2, 3), num_samples=1e6, algorithm=cosine)
        >>> print(f"{found.batch_size:.0f} {found.optimal_risk:.3e}")
        602 2.155e-04

    Reference:
        Zhang et al., arXiv 2410.21676, Definition 3.
    """
    require_stretching(checked_algorithm(algorithm), "approximate_critical_batch_size")
    tuned = TunedRisk(problem, algorithm)
    workers = tuned.workers
    samples = float(checked_samples(positive_number("num_samples", num_samples), workers)) / workers
    overhead = positive_number("overhead", overhead)
    steps = _numbers(tuned.first_steps, samples)
    found = tuned.least(samples / steps, steps, settled=ROUGHLY)
    best = int(np.argmin(found.risk))
    risk = float(found.risk[best])
    require_learnt(tuned, samples, risk)
    require_several_steps(samples, steps[best])
    budget = (1 + overhead) * samples
    # Samples that are fewer by 1 + ω leave a risk that is larger by no more than this.
    beyond = np.flatnonzero(found.risk[:best] > (1 + overhead) ** 2 * risk)
    ends = steps[beyond[-1:]] if beyond.size else np.ones(1), np.floor(budget / samples * steps[[best]])
    fewest, rate = fewest_enough(LeastRisk(tuned), lambda number, _: budget / number, risk, *ends)
    return ApproximateCriticalBatchSize(
        batch_size=budget / float(fewest[0]),
        num_steps=float(fewest[0]),
        learning_rate=float(rate[0]),
        optimal_risk=risk,
        optimal_batch_size=samples / float(steps[best]),
        num_samples=workers * samples,
        overhead=overhead,
        batch_sizes=samples / steps[::-1],
        learning_rates=found.rate[::-1],
        risks=found.risk[::-1],
    )


def _numbers(first: float, samples: float) -> np.ndarray:
    """Return numbers of steps up to D: a few, and even ones, at which steps that overshoot leave least."""
    most = np.floor(samples)
    even = 2 * np.round(np.geomspace(first, most, int(np.log10(most / first) * PER_DECADE) + 2) / 2)
    few = np.arange(first, min(EVERY_FEW_STEPS, most) + 1)
    return np.union1d(few, np.clip(even, first, most))
