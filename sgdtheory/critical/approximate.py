"""The critical batch size from a few hundred risks, usually within 1%: what a picture needs, for any algorithm."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.shown import Sheet, Shown, columns_sheet
from sgdtheory.algorithms import Algorithm, checked_algorithm, require_stretching
from sgdtheory.critical.data_sizes import checked_samples, require_learnt, require_several_steps
from sgdtheory.critical.relaxed_risk import BETWEEN, RelaxedRisk
from sgdtheory.critical.tuned_risk import TunedRisk
from sgdtheory.problems import AbstractProblem

NEAR_CROSSING = 1.2 ** np.array([-1.5, -0.5, 0.5, 1.5])  # times a guess of a number of steps: where to look closely
MOST_GUESSES = 8  # times that numbers of steps are computed there
CROSSED = 1.3  # ratio of two numbers of steps between which there is no need to look
ENOUGH = 0.05  # of a step: so little less than a whole number of steps is that number


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
    """B* to 1% in 19 of 20 power laws, in a fifth to half of the time of `critical_batch_size`: for pictures and scans.

    From the tuned risk of n steps when B need not be whole (THEORY.md T12):

        ρ_D(n) = min_γ Δ(D/n, γ, n),   R_opt ≈ min_n ρ_D(n),   B* ≈ (1 + ω) D / min {n : ρ_{(1+ω)D}(n) ≤ R_opt}

    ρ is computed at a few even n and interpolated, each minimum over γ in one basin alone. In 220 random power laws (a
    from 1.1 to 3, b from 1.1 to 6, σ² from 0.01 to 10, D from 300 to 10⁸) B* was within 1% of the exact one in 207, and
    off by more than 5% in nine, by a factor of 2.3 at most. These nine have b > 3.9, σ² ≥ 1 and 10 to 282 steps: R_opt
    is that of few steps next to the stability edge, or the best γ jumps from one basin to another as n changes. Take
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
    relaxed = RelaxedRisk(tuned, samples, tuned.patterns.first_steps, roughly=tuned.roughly)
    best = int(np.argmin(relaxed.risk))
    risk = float(relaxed.risk[best])
    require_learnt(tuned, samples, risk)
    require_several_steps(samples, relaxed.steps[best])
    least, rate = _fewest_steps(tuned, relaxed, (1 + overhead) * samples, risk)
    steps = float(np.ceil(least - ENOUGH))
    return ApproximateCriticalBatchSize(
        batch_size=(1 + overhead) * samples / steps,
        num_steps=steps,
        learning_rate=rate,
        optimal_risk=risk,
        optimal_batch_size=samples / float(relaxed.steps[best]),
        num_samples=workers * samples,
        overhead=overhead,
        batch_sizes=samples / relaxed.steps[::-1],
        learning_rates=relaxed.rate[::-1],
        risks=relaxed.risk[::-1],
    )


def _fewest_steps(tuned: TunedRisk, relaxed: RelaxedRisk, budget: float, target: float) -> tuple[float, float]:
    """About how few steps reach the target with a budget of samples, and γ: from ρ at a few n, nearer and nearer."""
    guess = relaxed.steps_about(budget, target)
    if np.isnan(guess):  # D is so small that there is one number of steps
        return float(relaxed.steps[0]), float(relaxed.rate[0])
    steps = _even(np.clip(guess * NEAR_CROSSING, 2.0, relaxed.steps[-1]))
    known = np.empty((3, 0))
    rate = np.exp(np.interp(np.log(steps), np.log(relaxed.steps), np.log(relaxed.rate)))
    for _ in range(MOST_GUESSES):
        found = tuned.roughly(budget / steps, steps, rate)
        known = np.hstack([known, [steps, np.log(found.risk / target), found.rate]])
        known = known[:, np.argsort(known[0])]
        first = int(np.argmax(np.append(known[1] <= 0, True)))
        low = np.append(2.0, known[0])[first]
        high = np.append(known[0], relaxed.steps[-1])[first]
        steps = np.setdiff1d(_even(np.geomspace(low, high, NEAR_CROSSING.size + 2)), known[0])
        rate = None
        if high <= CROSSED * low or not steps.size:
            break
    place = np.log(known[0])
    between = np.linspace(place[0], place[-1], BETWEEN)
    margin = np.interp(between, place, known[1]) if place.size < 3 else PchipInterpolator(place, known[1])(between)
    steps = np.exp(between[np.argmax(np.append(margin[:-1] <= 0, True))])
    return float(steps), float(np.interp(steps, known[0], known[2]))


def _even(steps: np.ndarray) -> np.ndarray:
    return np.unique(np.maximum(2 * np.round(steps / 2), 2.0))
