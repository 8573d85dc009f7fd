"""How often 95% intervals of `fit_loss_curves` hold what is true: `python -m benchmarks.curve_intervals`.

Curves of the theory, with residuals that are correlated along log t, are fitted again and again. Of each number, and of
B* at `--num-samples`, how many of 100 intervals hold it: by profile likelihood and, beneath, linear in the numbers. The
table in docs/loss-curves.md has 200 replicas a design, of which B* has `--critical`.

Fits start at the truth: the search for a start is not what is looked at. A number is held where its profile at the true
value is inside; whether ends are given, or left open, is not looked at.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np

import sgdtheory as st
from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.law_fit import confidence_set
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.profile import LinearSet, ProfileSet
from sgdtheory.curves.robust_fit import RobustFit, fit, observed

STEPS = 6000
SCHEDULES = {"cosine": st.Cosine(final=0.1), "constant": st.Constant(), "drop": st.Stages((0.0, 0.4), (1.0, 0.3))}
TRUE = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 0.125, "step_size": 0.2, "floor": 2.0}
GROWTH = 1e-3  # of the weights' squared norm in a step
PEAK = 0.2  # learning rate


@dataclass(frozen=True)
class Design:
    """Curves that are fitted: schedules, scatter and its correlation in log t, σ²/B, batch size, law, rows of a curve."""

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


def critical_held(design: Design, curves: list[st.LossCurve], found: RobustFit, samples: float) -> tuple[bool, bool]:
    """Whether the intervals of B* hold it, by profiles and linear."""
    from sgdtheory.curves.theory_fit import result_of

    def interval(fitted: RobustFit) -> tuple[float, np.ndarray]:
        said = result_of(fitted, observed(curves, design.law), tuple(curves), 0.95, numbers=False)
        critical = said.critical_batch_size(samples)
        return float(critical.batch_size[0]), critical.interval[0]

    truth, _ = interval(replace(found, coordinates=design.truth, told=np.zeros_like(found.told)))
    ends = interval(found)[1], interval(replace(found, row_covariance=None))[1]
    inside, linear = (bool(low <= truth <= high) for low, high in ends)
    return inside, linear


def main() -> None:
    """Print a design a pair of lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--design", nargs="+", choices=DESIGNS, default=[*DESIGNS])
    parser.add_argument("--replicas", type=int, default=200)
    given = parser.parse_args()
    for name in given.design:
        design = DESIGNS[name]
        clean = design.curves()
        counts = []
        for seed in range(given.replicas):
            curves = replica(design, clean, np.random.default_rng(seed))
            data = observed(curves, design.law)
            found = fit(data, [dict(zip(design.law.names, *[[float(v[0]) for v in design.law.values(design.truth[None]).values()]]))], lambda text: None)
            within = confidence_set(found, data, 0.95)
            counts.append(held(design, found, within))
        share = 100 * np.mean(counts, axis=0)
        print(name, given.replicas, design.law.names, share.round(1).tolist(), flush=True)


if __name__ == "__main__":
    main()
