"""How often 95% intervals of `fit_loss_curves` hold what is true: `python -m benchmarks.curve_intervals`.

Curves of the theory, with residuals that are correlated along log t, are fitted again and again. Of each number, and of
B* at `--num-samples`, how many of 100 intervals hold it: by profile likelihood and, beneath, linear in the numbers.
docs/loss-curves.md has a table.

Fits start at the truth: the search for a start is not what is looked at. A number is held where its profile at the true
value is inside; whether ends are given, or left open, is not looked at.
"""

import argparse
from dataclasses import dataclass

import numpy as np

import sgdtheory as st
from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.law_fit import confidence_set
from sgdtheory.curves.laws.theory import GROWTH as GROWTH_NUMBER
from sgdtheory.curves.laws.theory import NUMBERS, TheoryLaw
from sgdtheory.curves.loss_table import loss_tables
from sgdtheory.curves.profile import ProfileSet, extremes
from sgdtheory.curves.robust_fit import RobustFit, fit, observed

STEPS = 6000
SCHEDULES = {"cosine": st.Cosine(final=0.1), "constant": st.Constant(), "drop": st.Stages((0.0, 0.4), (1.0, 0.3))}
TRUE = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 0.125, "step_size": 0.2, "floor": 2.0}
GROWTH = 1e-3  # of the weights' squared norm in a step
PEAK = 0.2  # learning rate
COARSE = 0.02  # of a coordinate, for derivatives of B*, which is interpolated


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


def log_critical(design: Design, points: np.ndarray, samples: float) -> np.ndarray:
    """(Q,) log B* at coordinates (Q, P)."""
    models = design.law.model(design.law.values(points))
    optimizer = design.law.prepared(design.curves()).optimizer
    tables = loss_tables(models, optimizer, st.Linear(), samples, design.batch or 1.0, PEAK)
    return np.log([table.critical_batch_size(samples, 0.2)[0] for table in tables])


def critical_held(design: Design, within: ProfileSet, samples: float, truth: float) -> tuple[bool, bool]:
    """Whether the intervals of B* hold it, by profiles and linear."""
    low, high = extremes(within, lambda points: log_critical(design, points, samples), COARSE)
    around = within.best + COARSE * np.eye(within.best.size + 1, within.best.size, -1)
    found = log_critical(design, around, samples)
    slopes = (found[1:] - found[0]) / COARSE
    reach = within.linear.quantile * np.sqrt(slopes @ within.linear.covariance @ slopes)
    return low <= truth <= high, bool(abs(found[0] - truth) <= reach)


def coverage(design: Design, replicas: int, critical: int, samples: float) -> tuple[np.ndarray, np.ndarray]:
    """Replicas × (profile, linear) × numbers, and `critical` × (profile, linear) of B*."""
    clean = design.curves()
    start = {name: float(value[0]) for name, value in design.law.values(design.truth[None]).items()}
    numbers = []
    sizes = []
    truth = float(log_critical(design, design.truth[None], samples)[0]) if critical else np.nan
    for seed in range(max(replicas, critical)):
        data = observed(replica(design, clean, np.random.default_rng(seed)), design.law)
        found = fit(data, [start], lambda text: None)
        within = confidence_set(found, data, 0.95)
        assert isinstance(within, ProfileSet)
        if seed < replicas:
            numbers.append(held(design, found, within))
        if seed < critical:
            sizes.append(critical_held(design, within, samples, truth))
    return np.array(numbers), np.array(sizes).reshape(-1, 2)


def main() -> None:
    """Print a table, two lines a design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--design", nargs="+", choices=DESIGNS, default=[*DESIGNS])
    parser.add_argument("--replicas", type=int, default=200)
    parser.add_argument("--critical", type=int, default=60)
    parser.add_argument("--num-samples", type=float, default=STEPS, help="in batches of the curves")
    given = parser.parse_args()
    columns = [number.name for number in (*NUMBERS, GROWTH_NUMBER)]
    print(f"{'':28}" + "".join(f"{name:>10}" for name in [*columns, "B*"]))
    for name in given.design:
        design = DESIGNS[name]
        samples = given.num_samples * (design.batch or 1.0)
        numbers, sizes = coverage(design, given.replicas, given.critical, samples)
        for k, kind in enumerate(("profile", "linear")):
            shares = [*numbers[:, k].mean(0), *[np.nan] * (len(columns) - numbers.shape[2])]
            shares.append(sizes[:, k].mean() if len(sizes) else np.nan)
            print(
                f"{name if k == 0 else '':20}{kind:8}" + "".join(f"{100 * each:10.1f}" for each in shares), flush=True
            )
    error = 100 * np.sqrt(0.95 * 0.05 / np.array([given.replicas, max(given.critical, 1)]))
    print(f"of 100; standard errors at 95: {error[0]:.1f}, of B* {error[1]:.1f}")
