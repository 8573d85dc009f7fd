"""Simulated means beside the exact risk and a bound, and which of the three disagree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from sgdtheory.algorithms import Algorithm
from sgdtheory.simulation import simulate

FALSE_ALARM = 1e-4  # Chance alone is called a disagreement with this probability, over all points together.


@dataclass(frozen=True)
class Simulated:
    """Means of replicas at P points.

    Attributes:
        mean: (P,).
        standard_error: (P,).
        above_exact: (P,) normal scores of mean − exact.
        above_bound: (P,) normal scores of mean − bound.
        replicas: at each.
        law: of the data, in words.
    """

    mean: np.ndarray
    standard_error: np.ndarray
    above_exact: np.ndarray
    above_bound: np.ndarray
    replicas: int
    law: str

    @property
    def limit(self) -> float:
        """Score beyond which chance is ruled out, counting all points: 1e-4 together."""
        return float(stats.norm.isf(FALSE_ALARM / 2 / self.mean.size))


def simulated_means(
    points: Sequence[Any],
    exact: np.ndarray,
    bound: np.ndarray,
    *,
    replicas: int,
    quantity: Any,
    algorithm: Algorithm,
    law: Any,
    seed: int,
) -> Simulated:
    """Every point is a run of its own; points of one problem are simulated in one call."""
    import jax  # half a second that the exact theory does not need

    mean = np.empty(len(points))
    error = np.empty(len(points))
    above_exact = np.empty(len(points))
    above_bound = np.empty(len(points))
    problems = list({id(point.problem): point.problem for point in points}.values())
    for number, problem in enumerate(problems):
        places = [place for place, point in enumerate(points) if point.problem is problem]
        batch, rate, samples = np.array([points[place][1:] for place in places]).T[..., None]
        found = simulate(
            jax.random.fold_in(jax.random.key(seed), number),
            problem,
            batch_size=batch,
            learning_rate=rate,
            num_samples=samples,
            num_replicas=replicas,
            algorithm=algorithm,
            sampler="sufficient" if law == "gaussian" else "explicit",
            law=law,
            quantity=quantity,
        )
        mean[places] = np.ravel(found.mean)
        error[places] = np.ravel(found.standard_error)
        above_exact[places] = np.ravel(found.normal_score(exact[places, None]))
        above_bound[places] = np.ravel(found.normal_score(bound[places, None]))
    return Simulated(mean, error, above_exact, above_bound, replicas, str(law))


def disagreements(
    points: Sequence[Any], exact: np.ndarray, bound: np.ndarray, side: str, applies: np.ndarray, simulated: Simulated
) -> tuple[str, ...]:
    """A sentence for each pair of the three that differs, with the setting where it does most.

    A mean differs from a number if chance is ruled out, at 1e-4 for all points together. Bounds without constants,
    which hold up to factors, differ from nothing.
    """
    sign = {"upper": 1.0, "lower": -1.0}.get(side, 0.0)
    beyond = np.where(applies, sign * (exact - bound), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(beyond > 0, np.abs(exact / bound - 1), 0.0)
    pairs = {
        "the simulated mean and the exact risk differ": np.abs(simulated.above_exact) > simulated.limit,
        "the exact risk violates the bound": beyond > 0,
        "the simulated mean violates the bound": applies & (sign * simulated.above_bound > simulated.limit),
    }
    sizes = (np.abs(simulated.above_exact), share, sign * simulated.above_bound)
    found = []
    for (words, differs), size in zip(pairs.items(), sizes, strict=True):
        if differs.any():
            worst = int(np.argmax(np.where(differs, size, -np.inf)))
            found.append(
                f"{words} at {np.count_nonzero(differs)} of {len(points)} settings, most at B = "
                f"{points[worst].batch_size:g}, γ = {points[worst].learning_rate:.4g}, D = "
                f"{points[worst].num_samples:g}: simulated {simulated.mean[worst]:.4g} ± "
                f"{simulated.standard_error[worst]:.2g}, exact {exact[worst]:.4g}, bound {bound[worst]:.4g}"
            )
    return tuple(found)
