"""How do the constants of Theorem 7 change if the data are not Gaussian and have heavier tails?"""

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.progress import report, stage, tracked
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, categories, legend, log_axes, new_figure
from sgdtheory.risk import risk_by_recursion
from sgdtheory.simulation import EllipticalT, FourthMoment, Gaussian, Rademacher, StudentT


@dataclass(frozen=True)
class Config:
    """Laws and settings; the risk's variance is finite only where eighth moments are, ν > 8: those are simulated."""

    seed: int = 0
    capacity: float = 2.0
    source: float = 3.0
    dim: int = 32
    batch_sizes: tuple[int, ...] = (1, 4)
    constant: float = 0.5  # of Theorem 7's γ ≤ c min{B/tr H, 1/‖H‖}
    num_steps: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    simulated_freedom: float = 12.0
    simulated_constant: float = 0.25
    num_replicas: int = 4096
    freedoms: tuple[float, ...] = (4.1, 4.2, 4.5, 5.0, 6.0, 8.0, 12.0, 24.0)
    exact_steps: tuple[int, ...] = (4, 16, 64, 256, 1024)
    false_alarm: float = 1e-5
    allowed_drift: float = 2.0  # constants on the longest runs over those on runs a quarter as long


SCALES = {"quick": Config(), "full": Config(dim=64, num_replicas=8192, exact_steps=(4, 16, 64, 256, 1024, 4096))}
DRAWN = 1e12  # what stands for infinity in a figure, far above its upper edge
UNITS = {
    "law": "of the data",
    "kurtosis": "of a projection on one direction; of elliptical data on any",
    "isotropic": "χ in E z_i² (zᵀu)² = χ ‖u‖² + δ u_i²",
    "batch_size": "B, samples",
    "learning_rate": "γ, units of 1/λ_1",
    "constant": "γ / min{B/tr H, 1/‖H‖}",
    "num_steps": "n, steps",
    "exact": "excess risk by the recursion with the law's fourth moment, units of y²",
    "ratio": "exact / Theorem 7's bound",
    "simulated": "mean simulated excess risk, units of y²; nan where none was simulated",
    "standard_error": "its standard error",
    "score": "(simulated − exact) / standard error, made normal where risks are skewed",
    "score_gaussian": "the same against the Gaussian risk",
}


def run(config: Config) -> Result:
    """Ratios by the recursion for every law, and simulations by the explicit sampler for light enough ones."""
    start = time.perf_counter()
    signal = st.PowerLaw(config.capacity, config.source, config.dim).initial_risk
    problem = st.PowerLaw(config.capacity, config.source, config.dim, noise_variance=signal)
    rows: list[dict] = []
    with stage("recursion", 0.0, 0.3):
        for name, law in tracked(_laws(config)):
            moment = law.fourth_moment
            for constant in (config.constant, scaled_constant(config, moment)):
                rows += _exact(config, problem, name, moment, constant)
    seconds = time.perf_counter() - start
    with stage("simulations", 0.3, 1.0):
        for number, (name, law) in tracked(enumerate(_simulated_laws(config))):
            rows += _simulated(config, problem, name, law, jax.random.fold_in(jax.random.key(config.seed), number))
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in UNITS}
    verdicts = _verdicts(config, columns, seconds, time.perf_counter() - start - seconds)
    return Result(columns, UNITS, {"heavy_tails": _figure(config, columns)}, verdicts)


def scaled_constant(config: Config, moment: FourthMoment) -> float:
    """c · min{1, 3/κ}: the Gaussian constant, divided by what the data's fourth moment exceeds the Gaussian one by."""
    return config.constant * min(1.0, 3.0 / (moment.isotropic + moment.diagonal))


def _laws(config: Config) -> list:
    laws = [("gaussian", Gaussian()), ("rademacher", Rademacher())]
    for freedom in config.freedoms:
        laws += [("independent t", StudentT(freedom)), ("elliptical t", EllipticalT(freedom))]
    return laws


def _simulated_laws(config: Config) -> list:
    freedom = config.simulated_freedom
    light = [("gaussian", Gaussian()), ("rademacher", Rademacher())]
    return [*light, ("independent t", StudentT(freedom)), ("elliptical t", EllipticalT(freedom))]


def _exact(config: Config, problem: st.PowerLaw, name: str, moment: FourthMoment, constant: float) -> list[dict]:
    rows = []
    for batch in config.batch_sizes:
        rate = constant * min(batch / problem.trace, 1 / problem.largest_eigenvalue)
        for steps in config.exact_steps:
            bound = st.theorem7(problem, batch_size=batch, learning_rate=rate, num_samples=batch * steps).total
            exact = _risk(problem, batch, rate, steps, moment)
            rows.append(_row(name, moment, batch, rate, constant, steps) | {"exact": exact, "ratio": exact / bound})
    return rows


def _risk(problem: st.PowerLaw, batch: int, rate: float, steps: int, moment: FourthMoment) -> float:
    setting = {"batch_size": batch, "learning_rate": rate, "num_steps": steps, "fourth_moment": moment}
    with np.errstate(over="ignore", invalid="ignore"):
        risk = sum(risk_by_recursion(*problem.directions(), problem.noise_variance, **setting))
    return risk if np.isfinite(risk) else np.inf


def _row(name: str, moment: FourthMoment, batch: int, rate: float, constant: float, steps: int) -> dict:
    return {
        "law": name,
        "kurtosis": moment.isotropic + moment.diagonal,
        "isotropic": moment.isotropic,
        "batch_size": batch,
        "learning_rate": rate,
        "constant": constant,
        "num_steps": steps,
    }


def _simulated(config: Config, problem: st.PowerLaw, name: str, law: Any, key: Any) -> list[dict]:
    rows = []
    batches = np.array(config.batch_sizes, dtype=float)[:, None]
    constant = config.simulated_constant
    rates = constant * np.minimum(batches / problem.trace, 1 / problem.largest_eigenvalue)
    setting = {"batch_size": batches, "learning_rate": rates, "num_samples": batches * np.array(config.num_steps)}
    drawn = {"sampler": "explicit", "law": law, "num_replicas": config.num_replicas}
    simulation = st.simulate(key, problem, **setting, **drawn, progress=report)

    def by_recursion(moment: FourthMoment) -> np.ndarray:
        pairs = zip(config.batch_sizes, rates[:, 0].tolist(), strict=True)
        return np.array([[_risk(problem, batch, rate, n, moment) for n in config.num_steps] for batch, rate in pairs])

    exact, gaussian = by_recursion(law.fourth_moment), by_recursion(Gaussian().fourth_moment)
    bound = np.asarray(st.theorem7(problem, **setting).total)
    found = {
        "exact": exact,
        "ratio": exact / bound,
        "simulated": np.asarray(simulation.mean),
        "standard_error": np.asarray(simulation.standard_error),
        "score": np.asarray(simulation.normal_score(exact)),
        "score_gaussian": np.asarray(simulation.normal_score(gaussian)),
    }
    for i, j in np.ndindex(exact.shape):
        row = _row(name, law.fourth_moment, config.batch_sizes[i], rates[i, 0], constant, config.num_steps[j])
        rows.append(row | {label: float(values[i, j]) for label, values in found.items()})
    return rows


def _with_constant(config: Config, columns: dict, scaled: bool) -> np.ndarray:
    constant = config.constant * np.minimum(1, 3 / columns["kurtosis"]) if scaled else config.constant
    return np.isclose(columns["constant"], constant)


def _constants(config: Config, columns: dict, rows: np.ndarray, scaled: bool) -> tuple[float, float, float]:
    """Least and largest ratio of the exact rows, and the largest after at most a quarter of the steps."""
    mine = rows & np.isnan(columns["simulated"]) & _with_constant(config, columns, scaled)
    early = mine & (columns["num_steps"] <= max(config.exact_steps) / 4)
    ratio = columns["ratio"]
    return float(ratio[mine].min()), float(ratio[mine].max()), float(ratio[early].max())


def _verdicts(config: Config, columns: dict, exact_seconds: float, seconds: float) -> tuple[Verdict, ...]:
    done = np.isfinite(columns["score"])
    elliptical = columns["law"] == "elliptical t"
    limit = float(stats.norm.isf(config.false_alarm / 2 / done.sum()))
    worst = float(np.abs(columns["score"][done]).max())
    wrong = float(np.abs(columns["score_gaussian"][done & elliptical]).max())
    heaviest, last = columns["kurtosis"].max(), max(config.exact_steps)
    agreement = Verdict(
        "risk with the law's fourth moment",
        "simulated mean against the recursion for Gaussian, Rademacher and Student-t data (independent coordinates and "
        f"elliptical, ν = {config.simulated_freedom:g}), largest |score| of {done.sum()}; against the Gaussian risk "
        f"the elliptical data give |score| = {wrong:.1f}",
        f"|score| ≤ {limit:.2f}",
        worst,
        (0.0, limit),
        "fails" if worst > limit else "holds" if wrong > limit else "inconclusive",
        seconds,
    )
    gaussian = "γ ≤ c min{B/tr H, 1/‖H‖}, which the paper states for Gaussian data alone"
    claims = (
        ("independent coordinates, γ over the fourth moment", ~elliptical, True, "γ ≤ c (3/κ) min{B/tr H, 1/‖H‖}"),
        ("elliptical data, γ over the fourth moment", elliptical, True, "γ ≤ c (3/κ) min{B/tr H, 1/‖H‖}"),
        ("independent coordinates, γ as for Gaussian data is too large", ~elliptical, False, gaussian),
        ("elliptical data, γ as for Gaussian data is too large", elliptical, False, gaussian),
    )
    verdicts = []
    for claim, rows, scaled, condition in claims:
        low, high, early = _constants(config, columns, rows, scaled)
        bounded = np.isfinite(high) and high <= config.allowed_drift * early
        verdicts.append(
            Verdict(
                f"Theorem 7, {claim}",
                f"risk by the recursion over the bound, c = {config.constant:g}, {condition}, kurtosis κ up to "
                f"{heaviest:.0f}, B = {', '.join(map(str, config.batch_sizes))}, n ≤ {last}",
                "bounded ratio" if scaled else "a ratio without a bound",
                f"{low:.3g} ≤ ratio ≤ {high:.3g} (≤ {early:.3g} for n ≤ {last // 4})",
                (low, high),
                "holds" if bounded == scaled else "fails",
                exact_seconds / len(claims),
            )
        )
    return agreement, *verdicts


def _figure(config: Config, columns: dict) -> Figure:
    """Draw the constant against the tails, and the simulations that confirm the recursion behind it."""
    figure, axes = new_figure(1, 2, width=4.6, height=3.8)
    figure.suptitle(
        "Theorem 7 holds for heavy tails if the learning rate is divided by the data's fourth moment\n"
        rf"$\lambda_i = i^{{-{config.capacity:g}}}$, $s_i = i^{{-{config.source:g}}}$, {config.dim} directions, "
        r"$\sigma^2 = s_1 + s_2 + \ldots$, $B = 1$",
        fontsize=9,
    )
    _against_kurtosis(config, axes[0, 0], columns)
    _against_steps(config, axes[0, 1], columns)
    return figure


def _against_kurtosis(config: Config, axis: Axes, columns: dict) -> None:
    last = max(config.exact_steps)
    exact = np.isnan(columns["simulated"]) & (columns["num_steps"] == last) & (columns["batch_size"] == 1)
    series = (
        ("independent t", False, r"independent, $\gamma = c\,/\,\mathrm{tr}\,H$"),
        ("elliptical t", False, r"elliptical, $\gamma = c\,/\,\mathrm{tr}\,H$"),
        ("independent t", True, r"independent, $\gamma = (3/\kappa)\,c\,/\,\mathrm{tr}\,H$"),
        ("elliptical t", True, r"elliptical, $\gamma = (3/\kappa)\,c\,/\,\mathrm{tr}\,H$"),
    )
    for (law, scaled, label), look in zip(series, categories(len(series)), strict=True):
        mine = exact & (columns["law"] == law) & _with_constant(config, columns, scaled)
        order = np.argsort(columns["kurtosis"][mine])
        ratio = np.minimum(columns["ratio"][mine][order], DRAWN)
        axis.plot(columns["kurtosis"][mine][order], ratio, ms=4, label=label, **{**look, "ls": "-"})
    axis.axvline(3, color=BLACK, lw=1, ls=":", label=r"Gaussian data: $\kappa = 3$")
    axis.axhline(1, color=BLACK, lw=1)
    log_axes(axis)
    axis.set(xlabel=r"kurtosis $\kappa$ of the data", ylabel="risk / Theorem 7's bound")
    axis.set(ylim=(0.3, 1e3), xlim=(2.8, 90))
    axis.set_title(rf"recursion, Student-t data, $n = {last}$, $c = {config.constant:g}$", fontsize=9)
    legend(axis)


def _against_steps(config: Config, axis: Axes, columns: dict) -> None:
    laws = [name for name, _ in _simulated_laws(config)]
    aside = 1.03 ** (np.arange(len(laws)) - (len(laws) - 1) / 2)  # error bars side by side
    for name, shift, look in zip(laws, aside, categories(len(laws)), strict=True):
        mine = (columns["law"] == name) & np.isfinite(columns["simulated"]) & (columns["batch_size"] == 1)
        steps, scale = columns["num_steps"][mine], columns["ratio"][mine] / columns["exact"][mine]
        axis.plot(steps, columns["ratio"][mine], color=look["color"])
        error = 2 * columns["standard_error"][mine] * scale
        points = {"fmt": look["marker"], "ms": 4, "color": look["color"], "capsize": 2, "label": name}
        axis.errorbar(shift * steps, columns["simulated"][mine] * scale, yerr=error, **points)
    log_axes(axis, "x")
    axis.set(xlabel="steps $n$", ylabel="risk / Theorem 7's bound")
    freedom, constant = config.simulated_freedom, config.simulated_constant
    axis.set_title(
        rf"simulations (±2 s.e.) on the recursion (lines), $\nu = {freedom:g}$, $c = {constant:g}$", fontsize=9
    )
    legend(axis)
