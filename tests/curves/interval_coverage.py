"""Coverage of 95% intervals of `fit_loss_curves`: `python -m benchmarks.curve_intervals`.

Curves of the theory, with residuals that are correlated along log t, are fitted again and again. The table has, for
each number, how many of 100 intervals hold it: by profile likelihood and, beneath, linear in the numbers.
docs/loss-curves.md has a table. `benchmarks.curve_critical` does the same for B*, on other laws.

Fits start at the truth: the search for a start is not what is looked at. A number is held where its profile at the true
value is inside; whether ends are given, or left open, is not looked at.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import sgdtheory as st
from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.law_fit import confidence_set
from sgdtheory.curves.laws.theory import GROWTH as GROWTH_NUMBER
from sgdtheory.curves.laws.theory import NUMBERS, TheoryLaw
from sgdtheory.curves.profile import ProfileSet
from sgdtheory.curves.robust_fit import RobustFit, fit, observed

STEPS = 6000
SCHEDULES = {"cosine": st.Cosine(final=0.1), "constant": st.Constant(), "drop": st.Stages((0.0, 0.4), (1.0, 0.3))}
TRUE = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 0.125, "step_size": 0.2, "floor": 2.0}
GROWTH = 1e-3  # of the weights' squared norm in a step
PEAK = 0.2  # learning rate


@dataclass(frozen=True)
class Design:
    """Curves that are fitted: schedules, scatter and its correlation in log t, σ²/B, B, law, rows of a curve."""

    schedules: tuple[str, ...] = ("cosine", "constant", "drop")
    scatter: float = 5e-4
    length: float = 0.1
    noise: float = 0.125
    batch: float | None = None
    law: TheoryLaw = TheoryLaw()
    rows: int = 40

    @property
    def truth(self) -> np.ndarray:
        """(P,) coordinates."""
        values = TRUE | {"noise": self.noise * (self.batch or 1.0), "growth": GROWTH}
        return self.law.coordinates(values)

    def curves(self) -> list[st.LossCurve]:
        """Without scatter."""
        steps = np.unique(np.append(np.round(np.geomspace(150, STEPS, self.rows)), 0.4 * STEPS))
        flat = [
            st.LossCurve(
                steps,
                PEAK * SCHEDULES[name].factors(np.minimum(steps, STEPS - 1), STEPS),
                np.ones(steps.size),
                self.batch,
                name=name,
            )
            for name in self.schedules
        ]
        losses = self.law.losses(self.law.values(self.truth[None]), self.law.prepared(flat))
        return [with_losses(curve, loss[0]) for curve, loss in zip(flat, losses, strict=True)]


DESIGNS = {
    "three schedules": Design(),
    "one curve": Design(("cosine",), rows=60),
    "batch sizes known": Design(batch=32.0),
    "little noise": Design(noise=0.0125),
    "scatter ten times": Design(scatter=5e-3),
    "correlated long": Design(length=0.4),
    "weight decay": Design(law=TheoryLaw(0.1)),
    "Adam": Design(law=TheoryLaw(optimizer="adam")),
}


def with_losses(curve: st.LossCurve, loss: np.ndarray) -> st.LossCurve:
    """The same curve with other losses."""
    return st.LossCurve(curve.step, curve.learning_rate, loss, curve.batch_size, name=curve.name)


def replica(design: Design, clean: list[st.LossCurve], random: np.random.Generator) -> list[st.LossCurve]:
    """The curves with scatter of their own."""
    scattered = []
    for curve in clean:
        root = np.linalg.cholesky(correlation([np.log(curve.step)], design.length, 0.0))
        scatter = design.scatter * root @ random.standard_normal(curve.step.size)
        scattered.append(with_losses(curve, curve.loss * np.exp(scatter)))
    return scattered


def held(design: Design, found: RobustFit, within: ProfileSet) -> tuple[np.ndarray, np.ndarray]:
    """(P,) which numbers are held, by profiles and by the linear set."""
    normal = np.eye(found.coordinates.size)
    off = np.abs(found.coordinates - design.truth)
    linear = off <= within.linear.quantile * np.sqrt(np.diag(found.covariance))
    return within.depth_at(normal, design.truth) <= 1, linear


def fits(design: Design, seeds: Iterable[int]) -> Iterator[tuple[RobustFit, ProfileSet]]:
    """Return the fit of each replica, started at the truth."""
    clean = design.curves()
    start = {name: float(value[0]) for name, value in design.law.values(design.truth[None]).items()}
    for seed in seeds:
        data = observed(replica(design, clean, np.random.default_rng(seed)), design.law)
        found = fit(data, [start], lambda text: None)
        within = confidence_set(found, data, 0.95)
        assert isinstance(within, ProfileSet)
        yield found, within


def coverage(design: Design, seeds: Iterable[int]) -> np.ndarray:
    """Replicas × (profile, linear) × numbers."""
    return np.array([held(design, found, within) for found, within in fits(design, seeds)])


def main() -> None:
    """Print a table, two lines a design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--design", nargs="+", choices=DESIGNS, default=[*DESIGNS])
    parser.add_argument("--replicas", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    columns = [number.name for number in (*NUMBERS, GROWTH_NUMBER)]
    print(f"{'':28}" + "".join(f"{name:>10}" for name in columns))
    for name in given.design:
        numbers = coverage(DESIGNS[name], range(given.first_seed, given.first_seed + given.replicas))
        for kind, shares in zip(("profile", "linear"), numbers.mean(0), strict=True):
            print(f"{name if kind == 'profile' else '':20}{kind:8}" + "".join(f"{100 * each:10.1f}" for each in shares))
    print(f"of 100; standard error at 95: {100 * np.sqrt(0.95 * 0.05 / given.replicas):.1f}")
