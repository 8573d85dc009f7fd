"""Do loss curves at one batch size predict steps and B* at other batch sizes, with SGD and with Adam?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.answers import inside
from experiments._lib.batch_curves import (
    DECAY,
    Losses,
    decaying,
    network,
    network_runs,
    num_steps,
    theory_curve,
    theory_run,
    thinned,
)
from experiments._lib.predicted_steps import (
    AS_SGD,
    NETWORKS,
    Row,
    critical_ratio,
    over_trials,
    problem_name,
    slope,
    tuned,
)
from experiments._lib.predicted_steps_figure import figure
from experiments._lib.processes import map_on_cores
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of

AHEAD = 4  # a prediction looks so many times as far as the run went


@dataclass(frozen=True)
class Config:
    """Problems and networks, at which batch size they are fitted and at which they are tested."""

    fitted: float = 32.0  # B0
    trials: int = 4  # with scatter, data and initial weights of their own
    problems: tuple[tuple[float, float, float], ...] = ((1.6, 1.9, 4.0), (1.3, 2.0, 1.0))  # a, b, σ²
    theory_batches: tuple[float, ...] = (4, 8, 16, 32, 64, 128, 256, 512)
    theory_rates: tuple[float, ...] = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
    theory_fitted_rate: float = 0.2  # of the theory's curves; one more has the largest of the grid
    theory_targets: tuple[float, ...] = (2.1, 2.05, 2.03)
    scatter: float = 5e-4
    theory_steps: tuple[int, int, int] = (6000, 2000, 60000)  # at B0, fewest, most
    batches: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    sgd_rates: tuple[float, ...] = (0.0125, 0.025, 0.05, 0.1)
    adam_rates: tuple[float, ...] = (0.001, 0.002, 0.004, 0.008, 0.016)
    targets: tuple[float, ...] = (0.1, 0.06, 0.04)
    steps: tuple[int, int, int] = (4000, 1000, 8000)
    holdout_size: int = 2048
    tolerance: float = 1.3  # factor within which a prediction counts as right
    exponent: float = 0.15  # of B, to which what an update does counts as the same

    @property
    def cases(self) -> tuple[str, ...]:
        """Problems of the theory, fitted either way, optimizers of the networks, and the control."""
        theory = [problem_name(problem, alone) for alone in (False, True) for problem in self.problems]
        return (*theory, *NETWORKS, AS_SGD)

    def targets_of(self, case: str) -> tuple[float, ...]:
        """Losses to which steps are predicted."""
        return self.theory_targets if case.startswith("theory") else self.targets

    def rates_of(self, case: str) -> tuple[float, ...]:
        """The grid of γ of an optimizer, or of the control."""
        return self.sgd_rates if case == "SGD" else self.adam_rates


SCALES = {
    "quick": Config(
        trials=2,
        problems=((1.6, 1.9, 4.0),),
        theory_batches=(8, 32, 128, 512),
        theory_rates=(0.05, 0.1, 0.2, 0.4, 0.8),
        theory_targets=(2.1, 2.05),
        batches=(16, 32, 64, 128),
        sgd_rates=(0.05, 0.1),
        adam_rates=(0.002, 0.008),
        targets=(0.1, 0.06),
        steps=(1500, 600, 2500),
        holdout_size=512,
    ),
    "full": Config(),
}
UNITS = {
    "case": "problem of the theory, or optimizer of the network and how its learning rate is taken",
    "trial": "number",
    "target": "loss; of the theory with L0 = 2",
    "batch_size": "samples",
    "learning_rate": "γ",
    "measured": "steps; nan where the target was not reached",
    "predicted": "steps, by the curves at B0; nan where the target is not reached in four times the steps of the run",
}


def run(config: Config) -> Result:
    """Train the networks, fit each trial at B0, and predict the other batch sizes."""
    start = time.perf_counter()
    jobs: list[Callable[[], list[Row]]] = [
        partial(_theory_rows, config, problem, trial, alone)
        for problem in config.problems
        for trial in range(config.trials)
        for alone in (False, True)
    ]
    for optimizer in NETWORKS:
        trained = _trained(config, optimizer)
        for trial in range(config.trials):
            own = {key[:3]: losses for key, losses in trained.items() if key[3] == trial}
            jobs.append(partial(_network_rows, config, optimizer, trial, own))
    rows = [row for part in map_on_cores(_call, jobs) for row in part]
    verdicts = _verdicts(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"curves_batch_size": figure(config, rows)}, verdicts)


def _call(job: Callable[[], list[Row]]) -> list[Row]:
    return job()


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from the table."""
    return {"curves_batch_size": figure(config, rows_of(Row, recorded.rows))}


# ------------------------------------------------------------------ measurements


def _predicted(fit: st.curves.CurvesFit, rate: float, length: int, batch: float) -> Losses:
    with np.errstate(all="ignore"):  # beyond the stability edge
        found = fit.predict(rate, num_steps=AHEAD * length, batch_size=batch)
    return Losses(found.step, np.nan_to_num(found.loss, nan=np.inf))


def _theory_rows(config: Config, problem: tuple[float, float, float], trial: int, alone: bool) -> list[Row]:
    capacity, source, noise = problem
    law = st.PowerLaw(capacity, source, noise_variance=noise)
    random = np.random.default_rng([trial, config.problems.index(problem)])
    settings = [(shape, config.theory_fitted_rate) for shape in ("constant", "cosine", "drop")]
    settings += [] if alone else [("constant", max(config.theory_rates))]
    how = config.fitted, config.theory_steps[0], config.scatter, random
    fit = st.fit_loss_curves([theory_curve(law, *setting, *how) for setting in settings], optimizer="sgd")
    rows = []
    for batch in config.theory_batches:
        length = num_steps(batch, config.fitted, *config.theory_steps)
        for rate in config.theory_rates:
            exact = theory_run(law, "constant", rate, batch, length)
            guess = _predicted(fit, rate, length, batch)
            rows += [
                Row(
                    problem_name(problem, alone),
                    trial,
                    target,
                    batch,
                    rate,
                    exact.steps_to(target),
                    guess.steps_to(target),
                )
                for target in config.theory_targets
            ]
    return rows


def _trained(config: Config, optimizer: str) -> dict[tuple[str, float, float, int], Losses]:
    """(shape, B, γ, trial) → losses."""
    rates, found = config.rates_of(optimizer), {}
    for batch in config.batches:
        length = num_steps(batch, config.fitted, *config.steps)
        base = network(optimizer, batch_size=batch, max_steps=length, holdout_size=config.holdout_size)
        runs = network_runs(base, rates, config.trials)
        found |= {("constant", float(batch), *key): losses for key, losses in runs.items()}
    fitted = network(
        optimizer,
        batch_size=int(config.fitted),
        max_steps=config.steps[0],
        holdout_size=config.holdout_size,
        schedule=DECAY,
    )
    runs = network_runs(fitted, [rates[len(rates) // 2]], config.trials)
    return found | {("cosine", config.fitted, *key): losses for key, losses in runs.items()}


def _network_rows(
    config: Config, optimizer: str, trial: int, runs: dict[tuple[str, float, float], Losses]
) -> list[Row]:
    """Return the rows of one trial: fitted to its runs at B0, tested on its own runs."""
    curves = []
    for (shape, batch, rate), losses in runs.items():
        if batch == config.fitted:
            constant = np.full(losses.step.size, rate)
            rates = constant if shape == "constant" else decaying(rate, losses.step, config.steps[0])
            curves.append(thinned(losses, rates, batch))
    ways = {optimizer: optimizer.lower()} | ({AS_SGD: "sgd"} if optimizer == "Adam" else {})
    fits = {case: st.fit_loss_curves(curves, optimizer=way) for case, way in ways.items()}
    rows = []
    for (shape, batch, rate), losses in runs.items():
        if shape != "constant":
            continue
        length = num_steps(batch, config.fitted, *config.steps)
        measured = losses.smooth()
        for case, fit in fits.items():
            guess = _predicted(fit, rate, length, batch)
            rows += [
                Row(case, trial, target, batch, rate, measured.steps_to(target), guess.steps_to(target))
                for target in config.targets
            ]
    return rows


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    return (
        *(_steps_verdict(config, rows, case, seconds) for case in config.cases),
        *(_critical_verdict(config, rows, case) for case in config.cases),
        *(_slope_verdict(config, rows, case) for case in (*NETWORKS, AS_SGD)),
    )


def _steps_verdict(config: Config, rows: list[Row], case: str, seconds: float) -> Verdict:
    ratios = []
    for trial in range(config.trials):
        found = [tuned(rows, case, trial, target) for target in config.targets_of(case)]
        beside = [(each.predicted / each.measured)[each.batch_size != config.fitted] for each in found]
        ratios.append(np.concatenate(beside))
    ratio = np.concatenate(ratios)
    low, middle, high = (float(value) for value in np.quantile(ratio, (0.025, 0.5, 0.975)))
    shares = [float((np.abs(np.log(each)) <= np.log(config.tolerance)).mean()) for each in ratios]
    right = float((np.abs(np.log(ratio)) <= np.log(config.tolerance)).mean())
    return Verdict(
        f"steps at other batch sizes: {case}",
        f"Steps to a target loss predicted from curves at B0 = {config.fitted:g} divided by measured steps, each at "
        f"its own best γ of the grid, for {config.trials} trials and the targets "
        f"{', '.join(f'{each:g}' for each in config.targets_of(case))}. Measured are the median and the middle 95%; "
        f"{right:.0%} of {ratio.size} ratios are within a factor of {config.tolerance:g}, by trial "
        f"{', '.join(f'{share:.0%}' for share in shares)}. Holds if 95% of all ratios are, fails if this is so in no "
        f"trial",
        1.0,
        middle,
        (low, high),
        "holds" if right >= 0.95 else "fails" if max(shares) < 0.95 else "inconclusive",
        seconds,
    )


def _critical_verdict(config: Config, rows: list[Row], case: str) -> Verdict:
    logs = {
        target: [critical_ratio(tuned(rows, case, trial, target)) for trial in range(config.trials)]
        for target in config.targets_of(case)
    }
    text, mean, ends = _summary(logs, lambda value: f"{np.exp(value):.2f}")
    low, high = (float(np.exp(end)) for end in ends)
    return Verdict(
        f"B* from one batch size: {case}",
        f"B* of a + b/B fitted to predicted steps divided by B* of a + b/B fitted to measured steps, by target loss: "
        f"{text}. Measured is their mean, with the 95% interval from the scatter of {config.trials} trials. Holds if "
        f"the interval lies within a factor of {config.tolerance:g}",
        1.0,
        float(np.exp(mean)),
        (low, high),
        inside((low, high), 1 / config.tolerance, config.tolerance),
    )


def _summary(values: dict[float, list[float]], write: Callable[[float], str]) -> tuple[str, float, tuple[float, float]]:
    """By target in words, and all targets' mean with its interval; targets without a value in every trial are out."""
    known = {target: each for target, each in values.items() if np.isfinite(each).all()}
    text = ", ".join(f"{target:g}: {write(over_trials(each)[0])}" for target, each in known.items())
    if not known:
        return "none", float("nan"), (float("nan"), float("nan"))
    return text, *over_trials([float(np.mean(column)) for column in zip(*known.values(), strict=True)])


def _slope_verdict(config: Config, rows: list[Row], case: str) -> Verdict:
    """At one learning rate, so that tuning makes up for nothing: the smallest, with which noise matters least."""
    rate = min(config.rates_of(case))
    each = {
        target: [slope(rows, case, trial, target, rate) for trial in range(config.trials)] for target in config.targets
    }
    text, middle, ends = _summary(each, lambda value: f"{value:+.2f}")
    return Verdict(
        f"at one γ predicted/measured steps do not depend on B: {case}",
        f"Power p in predicted/measured steps ∝ B^p at γ = {rate:g}, the smallest one of the grid, by target loss: "
        f"{text}. The 95% interval comes from the scatter of trials. Holds if p is 0 within ±{config.exponent:g}. "
        f"Adam divides by the root of a mean square, which is tr Σ/B while noise dominates. The effect of γ then "
        f"grows like √B, so that p = 1/2 for a model of Adam as SGD",
        0.0,
        middle,
        ends,
        inside(ends, -config.exponent, config.exponent),
    )
