"""Verdicts of real_features: B* and R_opt against what second moments say, shape and noise, exponents over widths."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy import stats

from experiments._lib.answers import inside, worst
from experiments._lib.real_figures import Row
from experiments._lib.results import Verdict, VerdictName

QUANTITIES = {"capacity": "capacity exponent a", "source": "source exponent b", "predicted": "log B*"}


class Config(Protocol):
    """Fields of the experiment's config that the verdicts need; the config explains each."""

    @property
    def widths(self) -> Sequence[int]: ...
    @property
    def times(self) -> Sequence[int]: ...
    @property
    def num_samples(self) -> Sequence[int]: ...
    @property
    def sampled(self) -> int: ...
    @property
    def fitted(self) -> tuple[int, int]: ...
    @property
    def margin(self) -> float: ...
    @property
    def risk_margin(self) -> float: ...
    @property
    def exponent_margin(self) -> float: ...
    @property
    def level(self) -> float: ...


def verdicts_of(config: Config, rows: list[Row], seconds: float = 0.0) -> tuple[Verdict, ...]:
    """All of them, from the table."""
    critical_rows = [row for row in rows if row.kind == "critical"]
    return (
        _critical_verdict(config, critical_rows, seconds),
        _risk_verdict(config, critical_rows, seconds),
        _shape_verdict(config, critical_rows),
        *(_width_verdict(config, rows, name, seconds) for name in QUANTITIES),
    )


def _critical_verdict(config: Config, rows: list[Row], seconds: float) -> Verdict:
    """B* predicted over B* observed, of every feature set at every D."""
    answers: list[VerdictName] = []
    text: dict[str, list[str]] = {}
    for row in rows:
        ratio, low, high = (row.gaussian / observed for observed in (row.measured, row.high, row.low))
        surely = low > config.margin or high < 1 / config.margin
        agrees = 1 / config.margin <= ratio <= config.margin
        answers.append("holds" if agrees else "fails" if surely else "inconclusive")
        text.setdefault(row.features, []).append(f"{ratio:.2f} ({low:.2f} … {high:.2f})")
    ratios = [row.gaussian / row.measured for row in rows]
    off = np.exp(max(abs(np.log(row.predicted / row.gaussian)) for row in rows))
    listed = "; ".join(f"{name}: {', '.join(each)}" for name, each in text.items())
    return Verdict(
        "critical batch size of real features, from their second moments",
        f"B* predicted for Gaussian samples divided by B* of SGD on the data, both on the same grid, at D = "
        f"{', '.join(map(str, config.num_samples))}. In brackets is the {config.level:.0%} interval from resampled "
        f"replicas. A ratio holds within a factor of {config.margin:g}: {listed}. The grid's B* is within a factor of "
        f"{off:.2f} of st.critical_batch_size",
        1.0,
        f"{min(ratios):.2f} … {max(ratios):.2f}; {answers.count('holds')} of {len(answers)} hold",
        (min(ratios), max(ratios)),
        worst(answers),
        seconds,
    )


def _risk_verdict(config: Config, rows: list[Row], seconds: float) -> Verdict:
    """R_opt observed over that predicted."""
    ratios = [row.risk for row in rows]
    off = max(abs(np.log(ratio)) for ratio in ratios)
    return Verdict(
        "optimal risk of real features, from their second moments",
        f"R_opt(D) of SGD on the data divided by that of Gaussian samples, for all feature sets and D. The median is "
        f"{np.median(ratios):.3f}. Holds within {config.risk_margin - 1:.0%}; no interval is used",
        1.0,
        f"{min(ratios):.3f} … {max(ratios):.3f}",
        (min(ratios), max(ratios)),
        "holds" if off <= np.log(config.risk_margin) else "fails",
        seconds,
    )


def _shape_verdict(config: Config, rows: list[Row]) -> Verdict:
    """Judge whether the shape of the rows matters if noise does not depend on them, and the effect of the noise."""
    cases = [row for row in rows if np.isfinite(row.permuted)]
    noise, shape = ([factor(row) for row in cases] for factor in (_noise_factor, _shape_factor))
    finite = [row.crossed / row.gaussian for row in rows]
    text = "; ".join(
        f"{row.features}, D = {row.index:.0f}: {_noise_factor(row):.2f} · {_shape_factor(row):.2f}" for row in cases
    )
    off = max(abs(np.log(factor)) for factor in shape)
    return Verdict(
        "with noise independent of the inputs, inputs that are not Gaussian have the B* of Gaussian ones",
        f"Predicted B* divided by observed B* is a product of two ratios. The first is the effect of noise that "
        f"depends on x: B* after a permutation of the residuals over the samples, divided by the observed B*. The "
        f"second is the effect of the shape of the distribution: B* of Gaussian samples, divided by B* after the "
        f"permutation. Holds if the second ratio is always within a factor of {config.margin:g}; no interval is used. "
        f"First · second ratio: {text}. The first ratio is {min(noise):.2f} … {max(noise):.2f}, with median "
        f"{np.median(noise):.2f}. χ of the data (S2) is {min(row.spread for row in rows):.2f} … "
        f"{max(row.spread for row in rows):.2f}. B* of the distribution of the data, estimated by cross-fitting, is "
        f"{min(finite):.2f} … {max(finite):.2f} times that of the samples",
        1.0,
        f"{min(shape):.2f} … {max(shape):.2f}, median {np.median(shape):.2f}",
        (min(shape), max(shape)),
        "holds" if off <= np.log(config.margin) else "fails",
    )


def _noise_factor(row: Row) -> float:
    return row.permuted / row.measured


def _shape_factor(row: Row) -> float:
    return row.gaussian / row.permuted


def _width_verdict(config: Config, rows: list[Row], name: str, seconds: float) -> Verdict:
    """Judge whether an exponent of a transformer's last layer is the same at all widths."""
    changes = [_change(config, rows, steps, name) for steps in config.times]
    margin, answers, text = config.exponent_margin, list[VerdictName](), list[str]()
    for steps, each in zip(config.times, changes, strict=True):
        answers.append(inside(each.interval, -margin, margin))
        means = ", ".join(f"{mean:.2f}" for mean in each.means)
        text.append(f"{steps} steps: {means}, change {each.change:+.2f} ± {each.reach:.2f}")
    first, last = config.fitted
    where = f"at D = {config.sampled}" if name == "predicted" else f"over directions {first} … {last}"
    return Verdict(
        f"{QUANTITIES[name]} of a transformer's last layer is the same at all widths",
        f"Values {where} at widths {', '.join(map(str, config.widths))}, after several numbers of training steps, and "
        f"the change from the smallest to the largest width by a line in log width, with its {config.level:.0%} "
        f"interval (seeds and samples). Holds if every interval lies within ±{margin:g}: {'; '.join(text)}",
        0.0,
        f"{np.nanmin([each.change for each in changes]):+.2f} … {np.nanmax([each.change for each in changes]):+.2f}",
        (min(each.interval[0] for each in changes), max(each.interval[1] for each in changes)),
        worst(answers),
        seconds,
    )


class Change(NamedTuple):
    """(W,) means over seeds, the change from the least to the largest width, and half of its interval."""

    means: np.ndarray
    change: float
    reach: float

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval of the change."""
        return self.change - self.reach, self.change + self.reach


def _change(config: Config, rows: list[Row], steps: int, name: str) -> Change:
    """By a line in log width through all seeds; the interval is from their scatter within a width, or the rows'."""
    mine = [row for row in rows if row.kind == "exponents" and row.steps == steps and np.isfinite(getattr(row, name))]
    widths, values = np.array([row.dim for row in mine]), np.array([getattr(row, name) for row in mine])
    reaches = np.array([getattr(row, f"{name}_reach", 0.0) for row in mine])
    values = np.log(values) if name == "predicted" else values
    errors = reaches / stats.norm.ppf((1 + config.level) / 2)
    x = np.log(widths / min(config.widths)) / np.log(max(config.widths) / min(config.widths))
    means = {width: values[widths == width].mean() for width in sorted(set(widths))}
    freedom = len(values) - len(means)
    if len(means) < 2 or freedom < 1:
        return Change(np.array(list(means.values())), np.nan, np.inf)
    scatter = ((values - [means[width] for width in widths]) ** 2).sum() / freedom
    variance = max(scatter, float(np.mean(errors**2))) / ((x - x.mean()) ** 2).sum()
    reach = stats.t.ppf((1 + config.level) / 2, freedom) * np.sqrt(variance)
    return Change(np.array(list(means.values())), float(np.polyfit(x, values, 1)[0]), float(reach))
