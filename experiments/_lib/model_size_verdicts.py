"""Verdicts of model_size: where data and where the model are the limit, exponents, notions, and networks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

import sgdtheory as st
from experiments._lib.answers import worst
from experiments._lib.exponents import LastSlope, errors, last_slope
from experiments._lib.model_size_config import Config
from experiments._lib.model_sizes import (
    ALL,
    OVERHEAD,
    Pair,
    Row,
    chosen,
    column,
    effective,
    enough,
    limited,
    mean_dimension,
    path_exponents,
    random_exponent,
    size_exponent,
)
from experiments._lib.results import Verdict, VerdictName

NOTIONS = {
    "real_batch_size": "B*",
    "rate_batch_size": "twice the excess risk",
    "whole_rate_batch_size": "twice the whole risk",
    "simple_noise_scale": "simple",
    "hessian_noise_scale": "Hessian-weighted",
    "interpolation_batch_size": "m*",
}


def verdicts(config: Config, rows: list[Row], seconds: float) -> Iterator[Verdict]:
    """All of them, from the table."""
    yield replace(_invariance(config, rows), seconds=seconds)
    yield _limit_of_the_model(config, rows)
    if config.gaussian_samples:
        yield _gaussian_features(config, rows)
    yield _fixed_size(config, rows)
    yield _growing_together(config, rows)
    yield _compute_optimal(config, rows)
    yield _noise_scales(config, rows)
    yield _networks(config, rows)


def _over_all(config: Config, rows: list[Row]) -> Iterator[tuple[Row, float, float]]:
    """(row, M/k*(D) of all features, B* over that of all features), for every M and D of the grid."""
    for pair in config.exponents:
        whole = {row.num_samples: row for row in chosen(rows, kind="grid", pair=pair, model_size=ALL)}
        for row in chosen(rows, kind="grid", pair=pair):
            if np.isfinite(row.model_size):
                beside = whole[row.num_samples]
                yield row, row.model_size / beside.effective_dimension, row.real_batch_size / beside.real_batch_size


def _invariance(config: Config, rows: list[Row]) -> Verdict:
    """The paper's third takeaway."""
    found = list(_over_all(config, rows))
    mine = [ratio for _, share, ratio in found if share >= config.above]
    others = [ratio for _, share, ratio in found if share < 1]
    near = [ratio for _, share, ratio in found if 1 <= share < config.above]
    worst_ratio = max(mine, key=lambda each: abs(np.log(each)))
    return Verdict(
        "where data are the limit, B* does not depend on the model size",
        f"B* with M features divided by B* with all features at the same D, for {len(mine)} pairs (M, D) with M ≥ "
        f"{config.above:g} k*(D): {min(mine):.3f} … {max(mine):.3f}. Holds within ±{config.tolerance:.0%}. The ratio "
        f"is {_range(near)} for k* ≤ M < {config.above:g} k*, and {_range(others)} for M < k*. At the largest D its "
        f"difference from 1 is ∝ M to the power "
        f"{'; '.join(_approach(rows, pair, max(config.num_samples)) for pair in config.exponents)}",
        1.0,
        float(worst_ratio),
        (float(min(mine)), float(max(mine))),
        "holds" if abs(worst_ratio - 1) <= config.tolerance else "fails",
    )


def _approach(rows: list[Row], pair: Pair, samples: float) -> str:
    """Local slopes of |B*/B*_all − 1| in M above k*, where it is more than steps being whole could make it."""
    *line, whole = _line(rows, pair, samples)
    steps = (1 + OVERHEAD) * samples / whole.real_batch_size
    share = column(line, "model_size") / whole.effective_dimension
    apart = np.abs(column(line, "real_batch_size") / whole.real_batch_size - 1)
    shown = (share > 1.5) & (apart > 20 / steps)
    slopes = np.diff(np.log(apart[shown])) / np.diff(np.log(share[shown]))
    listed = ", ".join(f"{slope:.2f}" for slope in slopes) or "—"
    return f"a = {pair[0]:g}, b = {pair[1]:g}: {listed} (−(2a − 1) = {1 - 2 * pair[0]:g})"


def _range(values: Sequence[float] | np.ndarray) -> str:
    return f"{min(values):.3g} … {max(values):.3g}" if len(values) else "none"


def _limit_of_the_model(config: Config, rows: list[Row]) -> Verdict:
    """B* against the formula of THEORY.md T31, at the largest D; what it leaves out shrinks as D grows."""
    before, samples = sorted(config.num_samples)[-2:]
    ratios: list[float] = []
    nearing: list[bool] = []
    texts: list[str] = []
    for pair in config.exponents:
        dimension = effective(rows, pair)[samples]
        mine = [row for row in _line(rows, pair, samples) if config.below * row.model_size <= dimension]
        own = _over_formula(mine)
        nearing += list(np.abs(own - 1) < np.abs(_over_formula(_line(rows, pair, before)[: len(mine)]) - 1))
        ratios += own.tolist()
        slope = np.diff(np.log(column(mine, "real_batch_size"))) / np.diff(np.log(column(mine, "model_size")))
        measured = f"{slope[-1]:+.2f}" if slope.size else "one M"
        texts.append(
            f"a = {pair[0]:g}, b = {pair[1]:g}: {_range(own)}, last slope in M {measured} ({size_exponent(pair):+.2f})"
        )
    furthest = max(ratios, key=lambda each: abs(each - 1))
    met = abs(furthest - 1) <= config.tolerance
    return Verdict(
        "where the model is the limit, B* ∝ D^(1/2) M^((min{b, 2a+1} − 2a)/2)",
        f"B* divided by (2/λ_1) [ω(1+ω) D M σ_M²/Σ s_i/λ_i²]^(1/2) at D = {samples:.0e}, for M ≤ k*/{config.below:g}. "
        f"Holds within ±{config.tolerance:.0%}; otherwise inconclusive if the ratio still approaches 1: "
        f"{'; '.join(texts)}. With fewer features B* rises for b < 2a, is constant for b = 2a and falls for b > 2a",
        1.0,
        furthest,
        (min(ratios), max(ratios)),
        "holds" if met else "inconclusive" if all(nearing) else "fails",
    )


def _over_formula(rows: list[Row]) -> np.ndarray:
    return np.array([row.real_batch_size / limited(row.pair, row.model_size, row.num_samples) for row in rows])


def _line(rows: list[Row], pair: Pair, samples: float) -> list[Row]:
    return chosen(rows, kind="grid", pair=pair, num_samples=samples)


def _gaussian_features(config: Config, rows: list[Row]) -> Verdict:
    """Judge from how many Gaussian features on the data limit the risk."""
    judged, texts = [], []
    for pair in config.exponents:
        needed = [enough(rows, pair, samples, config.reached) for samples in config.gaussian_samples]
        slope, predicted = last_slope(config.gaussian_samples, needed), random_exponent(pair)
        judged.append((slope, predicted))
        every = {row.num_samples: row for row in chosen(rows, kind="grid", pair=pair, model_size=ALL)}
        sizes = ", ".join(
            f"{size:.0f} = {size / every[samples].effective_dimension:.1f} k* = "
            f"{size / every[samples].real_batch_size:.2f} B*"
            for size, samples in zip(needed, config.gaussian_samples, strict=True)
        )
        texts.append(f"a = {pair[0]:g}, b = {pair[1]:g} ({predicted:.3f}): {_text(slope)}, M = {sizes}")
    claim = "with Gaussian features data are the limit from M ≫ k*^max{1, m − a} on, m = min{b, 2a+1}"
    verdict = _exponents(config, claim, texts, judged)
    return replace(
        verdict,
        statement=f"M at which B* with M Gaussian features (by a deterministic equivalent) is {config.reached:g} "
        f"times B* with all features, at D = {', '.join(f'{each:.0e}' for each in config.gaussian_samples)}. "
        f"{verdict.statement}",
    )


def _fixed_size(config: Config, rows: list[Row]) -> Verdict:
    """Judge the growth of B* with the data if the model is too small for them (T31). The paper does not state it.

    Its second takeaway, "to a similar degree", was observed on language models at 0.28 … 4 times Chinchilla's data.
    """
    judged: list[tuple[LastSlope, float]] = []
    texts = []
    for pair in config.exponents:
        slope = _slope(chosen(rows, kind="grid", pair=pair, model_size=min(config.model_sizes)))
        free = _slope(chosen(rows, kind="grid", pair=pair, model_size=ALL))
        judged.append((slope, 0.5))
        texts.append(
            f"a = {pair[0]:g}, b = {pair[1]:g}: {_text(slope)}, with all features {_text(free)}, Corollary 8 "
            f"{float(st.predicted_exponent(*pair)):.3f}"
        )
    claim = f"a fixed model with far fewer features than k*(D), M = {min(config.model_sizes)}: B* ∝ D^(1/2) for every b"
    return _exponents(config, claim, texts, judged)


def _slope(rows: list[Row]) -> LastSlope:
    return last_slope(column(rows, "num_samples"), column(rows, "real_batch_size"))


def _text(slope: LastSlope) -> str:
    return f"{slope.text} ({slope.leads})"


def _growing_together(config: Config, rows: list[Row]) -> Verdict:
    """The paper's first takeaway, with the exponent of Corollary 8."""
    judged: list[tuple[LastSlope, float]] = []
    texts = []
    for pair in config.exponents:
        predicted, dimension = float(st.predicted_exponent(*pair)), effective(rows, pair)
        lines = [chosen(rows, kind=f"D = {ratio:g} M", pair=pair) for ratio in config.samples_per_feature]
        own = [_slope(line) for line in lines]
        judged += [
            (slope, predicted)
            for slope, line in zip(own, lines, strict=True)
            if all(row.model_size >= config.above * dimension[row.num_samples] for row in line[-3:])
        ]
        listed = ", ".join(
            f"D/M = {ratio:g} {_text(slope)}" for ratio, slope in zip(config.samples_per_feature, own, strict=True)
        )
        texts.append(f"a = {pair[0]:g}, b = {pair[1]:g} ({predicted:.3f}): {listed}")
    texts[-1] += f". Only lines with M ≥ {config.above:g} k* at the last three D are judged"
    return _exponents(config, "along D ∝ M, B* grows like D^c of Corollary 8", texts, judged)


def _exponents(config: Config, claim: str, texts: list[str], judged: list[tuple[LastSlope, float]]) -> Verdict:
    error = errors(judged)
    verdicts: list[VerdictName] = [slope.verdict(predicted, config.slope_tolerance) for slope, predicted in judged]
    return Verdict(
        claim,
        f"Slope in logarithms between the last two sizes ± the change since the pair before, with the prediction in "
        f"brackets. A slope holds if its extrapolation, with its interval, lies within ±{config.slope_tolerance:g} of "
        f"the prediction: {'; '.join(texts)}",
        "error 0",
        f"largest error {error.largest:+.4f}; {verdicts.count('holds')} of {len(verdicts)} slopes hold",
        error.interval,
        worst(verdicts),
    )


def _compute_optimal(config: Config, rows: list[Row]) -> Verdict:
    """Exponents of model size, B* and whole risk in C = M·D."""
    judged: list[tuple[LastSlope, float]] = []
    texts = []
    for pair in config.exponents:
        path = chosen(rows, kind="compute", pair=pair)
        compute = column(path, "model_size") * column(path, "num_samples")
        own = {name: last_slope(compute, column(path, name)) for name in path_exponents(pair)}
        judged += [(own[name], predicted) for name, predicted in path_exponents(pair).items()]
        names = {"model_size": "M", "real_batch_size": "B*", "whole_risk": "risk"}
        listed = ", ".join(
            f"{names[name]} {_text(own[name])} ({value:.3f})" for name, value in path_exponents(pair).items()
        )
        beside = chosen(rows, kind="compute, all features", pair=pair)
        shares = column(path, "model_size") / column(beside, "effective_dimension")
        texts.append(f"a = {pair[0]:g}, b = {pair[1]:g}: {listed}, M/k* = {shares[0]:.2g} … {shares[-1]:.2g}")
    claim = "compute-optimal: M ∝ C^(1/(b+1)), B* ∝ C^(min{(b−a)/(b+1), 1/2}), risk ∝ C^(−(b−1)/(b+1))"
    return _exponents(config, claim, texts, judged)


def _noise_scales(config: Config, rows: list[Row]) -> Verdict:
    """Judge which definitions of the critical batch size change with M while B* does not."""
    simple, weighted, texts = [], [], []
    samples = config.notion_samples
    for pair in config.exponents:
        *line, whole = _line(rows, pair, samples)
        above = [row for row in line if row.model_size >= config.above * whole.effective_dimension]
        for row in above:
            trace = row.interpolation_batch_size / whole.interpolation_batch_size
            simple.append(row.simple_noise_scale / whole.simple_noise_scale / trace)
            weighted.append(row.hessian_noise_scale / whole.hessian_noise_scale)
        least, first = line[0], above[0]
        parts = [
            f"{what} {', '.join(f'{getattr(row, name) / getattr(whole, name):.3g}' for row in (least, first))}"
            for name, what in NOTIONS.items()
        ]
        sizes = f"M = {least.model_size:g}, {first.model_size:g}, over all"
        texts.append(f"a = {pair[0]:g}, b = {pair[1]:g}, {sizes}: {'; '.join(parts)}")
    every = [*simple, *weighted]
    furthest = max(every, key=lambda each: abs(each - 1))
    return Verdict(
        "where data are the limit, the simple noise scale changes only with tr H, the Hessian-weighted one not at all",
        f"Noise scales with M features divided by those with all features, at D = {samples:.0e} and M ≥ "
        f"{config.above:g} k*: the simple one, in units of tr H, is {_range(simple)}, and the Hessian-weighted one "
        f"{_range(weighted)}. Holds within ±{config.tolerance:.0%}. The same ratio for every notion of critical batch "
        f"size: {' | '.join(texts)}",
        1.0,
        float(furthest),
        (min(every), max(every)),
        "holds" if abs(furthest - 1) <= config.tolerance else "fails",
    )


def _networks(config: Config, rows: list[Row]) -> Verdict:
    """Judge whether k* of a network's features stops growing with its width, and compare the widths with k*."""
    kinds = sorted({row.kind for row in rows if row.kind.startswith("network")})
    widths = np.array(sorted(config.networks.task.widths), float)
    slopes, texts = [], []
    for kind, samples in product(kinds, config.networks.num_samples):
        means = mean_dimension(rows, kind, samples, widths)
        slopes.append(float(np.log(means[-1] / means[-2]) / np.log(widths[-1] / widths[-2])))
        listed = ", ".join(f"{each:.1f}" for each in widths / means)
        texts.append(f"{kind.split(', ')[1]}, D = {samples:g}: {listed}, slope of k* {slopes[-1]:+.2f}")
    steepest = max(slopes, key=abs)
    small = abs(steepest) <= config.margin
    return Verdict(
        "k* of a network's features stops growing with its width",
        f"Width divided by k*(D) of the last hidden layer's activations, at widths {_widths(widths)}, where the "
        f"output is learnt from 0, and the slope of log k* in log width between the last two widths. Holds if all "
        f"slopes are within ±{config.margin:g}, fails if none is: {'; '.join(texts)}",
        f"slope 0 ± {config.margin:g}",
        steepest,
        (min(slopes), max(slopes)),
        "fails" if min(map(abs, slopes)) > config.margin else "holds" if small else "inconclusive",
    )


def _widths(widths: np.ndarray) -> str:
    return ", ".join(f"{each:g}" for each in widths)
