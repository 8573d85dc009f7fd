"""Tables of the findings on regression, each from the recorded table or verdicts of its experiment."""

import re
from collections.abc import Callable, Iterable

import numpy as np

from experiments._lib.finding_text import (
    bold,
    cases,
    claims,
    estimate,
    found_in,
    number,
    recorded,
    short,
    table,
    tidy,
    verdicts,
)

SLOPE = r"-?[\d.]+ ± [\d.]+"


def bounds() -> str:
    """Exact risk over every published bound, the setting with the extreme ratio, and whether the source was read."""
    pattern = r"exact risk . (?P<source>.+?): (?P<of>.+?); (?:tightest|attained) at (?P<at>.+)"
    rows = []
    for each in verdicts("bounds"):
        found = re.match(pattern, each["statement"])
        if found:
            source = found["source"].replace(", not verified against the paper", "")
            state = "not verified against the paper" if "not verified against the paper" in each["claim"] else ""
            cells = (source, found["of"], each["measured"], found["at"], state)
            rows.append((*map(tidy, cells), bold(each["verdict"])))
    header = ("bound", "bounded quantity", "exact/bound", "setting with the extreme ratio", "verification", "verdict")
    return table(header, rows)


def schedules_risk() -> str:
    """Risk of an exponential average over that of decay, and of all over the best."""
    rows = []
    for each in claims("schedules", ("an exponential average matches decay",)):
        ((pair, _),) = cases(each["claim"] + ": ")
        listed = re.findall(r"(\D.*?) (\d\.\d{3})(?:, |$)", each["statement"].split("at the largest D: ")[1])
        best, *others = listed
        text = "; ".join(f"{name} {value}" for name, value in others)
        rows.append((pair, number(each["measured"]), bold(each["verdict"]), best[0], text))
    header = ("a, b", "exponential over decay", "verdict (at most 1.05)", "best of all", "the others at D = 10⁸")
    return table(header, rows)


def schedules_critical() -> str:
    """B* of every schedule over that of the uniform average, and the slope of that ratio in D."""
    pattern = rf"(?:: |; )([^;:]+?) ([\d.]+ … [\d.]+) ∝ D\^\(({SLOPE})"
    found: dict[str, list[str]] = {}
    header = ["schedule"]
    for each in claims("schedules", ("a schedule changes B*",)):
        ((pair, _),) = cases(each["claim"] + ": ")
        header += [f"{pair}: ratio", f"slope ({each['predicted'].replace('slope ', '')})"]
        for name, ratio, slope in re.findall(pattern, each["statement"]):
            found.setdefault(name, []).extend((ratio, tidy(slope)))
    return table(header, [(name, *cells) for name, cells in found.items()])


def averages() -> str:
    """Slopes of log B* under four averages, with what is predicted and the verdict on each."""
    return _under_averages(rf"^({SLOPE}) \(predicted (-?[\d.]+), extrapolates to .*?; (\w+); R_opt")


def averages_risk() -> str:
    """The same of the optimal risk."""
    return _under_averages(rf"R_opt ({SLOPE}), predicted (-?[\d.]+), extrapolates to .*?; (\w+)")


def _under_averages(pattern: str) -> str:
    """A row a problem, a column an average; the pattern finds slope, prediction and verdict of a problem."""
    found: dict[str, dict[str, str]] = {}
    names = []
    for each in verdicts("averages"):
        name = each["claim"].split(":")[0]
        names.append(name)
        for pair, text in cases(each["statement"]):
            slope, predicted, verdict = found_in(pattern, text)
            found.setdefault(pair, {})[name] = f"{tidy(slope)} ({tidy(predicted)}), {verdict}"
    rows = [(pair, *(found[pair].get(name, "not run") for name in names)) for pair in sorted(found)]
    return table(("a, b", *names), rows)


def optimal_schedule_shape() -> str:
    """The exponent of the best schedule in what is left of the run, against 2a − 1."""
    rows = []
    for each in claims("optimal_schedule", ("γ_t ∝ (1 − t/n)",)):
        ((pair, _),) = cases(each["claim"] + ": ")
        windows = re.findall(r"0\.\d+ … 0\.\d+: ([\d.]+) \(", each["statement"])
        grown, leads = found_in(r"it is (.+?) as n grows, extrapolates to ([\d.]+ ± \d+\.\d+)", each["statement"])
        cells = (grown, leads, f"{each['predicted']:g}", bold(each["verdict"]), ", ".join(windows[1:4]))
        rows.append((pair, *cells))
    far = "0.1 … 0.3, 0.03 … 0.1, 0.01 … 0.03 at n = 10⁸"
    header = ("a, b", "0.3 … 0.8, n = 10² … 10⁸", "extrapolation", "predicted, 2a − 1", "verdict (±0.1)", far)
    return table(header, rows)


def optimal_schedule_losses() -> str:
    """Table of what named schedules lose against the best last iterate at the largest n, and of the best at each n."""
    names = ("power 2a − 1", "cosine", "linear", "WSD, decay 20%")
    rows = []
    for each in claims("optimal_schedule", ("ahead of linear decay", "WSD is within 1%")):
        ((pair, _),) = cases(each["claim"] + ": ")
        named, largest = each["statement"].split("Losses at the largest n: ")
        losses = dict(re.findall(r"(\D.*?) ([+-][\d.]+%)(?:, |$)", largest))
        first = re.findall(r"([A-Za-z][^():]*?) at n = 1e\+0?(\d+) \(", named.split("and its loss: ")[1])
        best = _runs([(name, tidy(f"1e{power}")) for name, power in first])
        crossing = each["measured"] if "ahead" in each["claim"] else f"WSD: {each['measured']}"
        cells = (*(losses[name] for name in names), best, tidy(crossing), bold(each["verdict"]))
        rows.append((pair, *(tidy(cell) if cell[0] in "+-" else cell for cell in cells)))
    header = ("a, b", *names, "best with a name, from n", "power overtakes linear at, or WSD loses", "verdict")
    return table(header, rows)


def _runs(items: Iterable[tuple[str, str]]) -> str:
    """Names in order, each with the first place where it stands."""
    found: list[tuple[str, str]] = []
    for name, place in items:
        if not found or found[-1][0] != name:
            found.append((name, place))
    return "; ".join(f"{name} ({place})" for name, place in found)


def optimal_exponents() -> str:
    """Slopes of B* and of the optimal risk with the best schedule, against exponents with and without saturation."""
    critical, risk = verdicts("optimal_exponents")[:2]
    pattern = rf"({SLOPE}, extrapolates to {SLOPE}) \((?:1 − a/b: )?(-?[\d.]+), (\w+); Corollary 8: (-?[\d.]+), (\w+)\)"
    rows = []
    for (pair, first), (_, second) in zip(cases(critical["statement"]), cases(risk["statement"]), strict=True):
        cells = []
        for text in (first, second):
            slope, own, verdict, other, against = found_in(pattern, text)
            cells += [slope, f"{own}, {verdict}", f"{other}, {against}"]
        rows.append((pair, *map(tidy, cells)))
    critical_columns = ("B\\* ∝ D to the", "1 − a/b", "Corollary 8")
    risk_columns = ("R_opt ∝ D to the", "without saturation", "Corollary 8")
    return table(("a, b", *critical_columns, *risk_columns), rows)


def optimal_exponents_ratios() -> str:
    """B* and R_opt of the best schedule over those of the uniform average."""
    rows = []
    pattern = r"B\* (.+?) times, ∝ D\^\((.+?)\) \(predicted (.+?)\), R_opt (.+?) times, ∝ D\^\((.+?)\) \((.+?)\)"
    for each in claims("optimal_exponents", ("the best schedule changes",)):
        for pair, text in cases(each["statement"]):
            rows.append((pair, *map(tidy, found_in(pattern, text)), bold(each["verdict"])))
    grid = "D = 10⁴ … 10⁷"
    header = ("a, b", f"B\\*, {grid}", "its power of D", "predicted", f"R_opt, {grid}", "its power of D", "predicted")
    return table((*header, "verdict"), rows)


def optimal_ramp_shape() -> str:
    """The exponent of the best batch sizes at a constant rate."""
    rows = []
    for each in claims("optimal_ramp", ("best B_t at constant γ",)):
        ((pair, _),) = cases(each["claim"] + ": ")
        rate, first, second, third = re.findall(
            r"n = 1e\+07, γ = ([\d.e-]+): ([\d.]+), ([\d.]+), ([\d.]+)", each["statement"]
        )[0]
        half = " (up to half the threshold)" if "up to half" in each["claim"] else ""
        rows.append((pair, tidy(rate) + half, first, second, third, each["predicted"], bold(each["verdict"])))
    header = ("a, b", "γ", "0.1 … 0.5", "0.01 … 0.1", "0.001 … 0.01", "predicted, 1 − 1/(2a)", "verdict (±0.02)")
    return table(header, rows)


def optimal_ramp_steps() -> str:
    """Fewest serial steps of every strategy over those of the best γ_t at a constant batch size."""
    names = (
        *("best γ_t and B_t", "best B_t at constant γ", "cosine", "constant γ, uniform average"),
        *("cosine-equivalent ramp", "doubling ramp"),
    )
    steps = {
        (f"{float(row['capacity']):g}, {float(row['source']):g}", row["strategy"], float(row["num_samples"])): float(
            row["num_steps"]
        )
        for row in recorded("optimal_ramp").rows
        if row["num_samples"] and row["num_steps"] and not row["left"]
    }
    sizes = sorted({size for _, _, size in steps})
    pairs = [pair for pair, _ in cases(verdicts("optimal_ramp")[-1]["statement"])]

    def cell(pair: str, name: str) -> str:
        ratios = [steps.get((pair, name, size), np.nan) / steps[pair, "best γ_t", size] for size in sizes]
        return ", ".join(f"{ratio:.2f}" if np.isfinite(ratio) else "never" for ratio in ratios)

    return table(("a, b", *names), [(pair, *(cell(pair, name) for name in names)) for pair in pairs])


def optimizers() -> str:
    """B* at the largest D and its slope, for SGD, its preconditioned form, signs and Adam."""
    rows = recorded("optimizers").rows
    largest = max(float(row["num_samples"]) for row in rows)
    sizes = {
        (row["method"], f"{float(row['capacity']):g}, {float(row['source']):g}"): float(row["real_batch_size"])
        for row in rows
        if float(row["num_samples"]) == largest
    }
    return _optimizer_slopes("B* of ", lambda name, pair: f"{sizes[name, pair]:,.{int(sizes[name, pair] < 10)}f}")


def optimizers_risk() -> str:
    """The slope of the optimal risk, for the same."""
    return _optimizer_slopes("R_opt of ", None)


def _optimizer_slopes(start: str, value: Callable[[str, str], str] | None) -> str:
    pattern = rf"({SLOPE}), extrapolates to .+? \((-?[\d.]+), (\w+)\)"
    header = ["method"]
    lines: list[list[str]] = []
    pairs: list[str] = []
    for each in claims("optimizers", (f"{start}",)):
        if not each["claim"].startswith(start):
            continue
        name = each["claim"].removeprefix(start).split(" ∝")[0]
        texts = dict(cases(each["statement"]))
        if not lines:  # SGD's, which has all problems
            pairs = list(texts)
            for pair in pairs:
                header += [f"{pair}: B\\* at D = 10⁷"] * bool(value) + [f"{pair}: slope (T35), verdict"]
        cells = [name]
        for pair in pairs:
            if pair not in texts:  # one step with all samples is best
                cells += ["–"] * (1 + bool(value))
                continue
            slope, predicted, verdict = found_in(pattern, texts[pair])
            cells += [value(name, pair)] if value else []
            cells.append(f"{tidy(slope)} ({tidy(predicted)}), {verdict}")
        lines.append(cells)
    return table(header, lines)


def model_size_compute() -> str:
    """Powers of the compute C = M·D along the least whole risk."""
    (each,) = claims("model_size", ("compute-optimal",))
    slope = r"(.+?) \(extrapolates to .+?\) \((.+?)\)"
    pattern = rf"M {slope}, B\* {slope}, risk {slope}, M/k\* = ([\d.]+ … [\d.]+)"
    rows = []
    for pair, text in cases(each["statement"]):
        model, of_model, critical, of_critical, risk, of_risk, share = map(tidy, found_in(pattern, text))
        rows.append((pair, f"{model} ({of_model})", f"{critical} ({of_critical})", f"{risk} ({of_risk})", share))
    header = ("a, b", "M ∝ C to the (predicted)", "B\\* ∝ C to the", "risk ∝ C to the", "M/k\\* along it")
    return table(header, rows)


def muon() -> str:
    """B* of every method on several outputs, without the draws of its interval."""
    from experiments import muon as experiment
    from experiments._lib.rows import rows_of

    found = recorded("muon")
    config = found.config(experiment.Config)
    rows = rows_of(experiment.Row, found.rows)
    columns = [(pair, samples) for pair in config.exponents for samples in config.num_samples]

    def cell(pair: tuple[float, float], samples: float, name: str) -> str:
        given, more = (experiment._table(rows, pair, name, samples, more=more) for more in (False, True))
        excess = np.log(more[1]) - np.log(given[1].min())
        return f"{experiment.largest(more[0], excess[np.newaxis])[0]:.0f}"

    header = ("B\\*", *(f"{a:g}, {b:g}: D = {samples}" for (a, b), samples in columns))
    lines = [(name, *(cell(pair, samples, name) for pair, samples in columns)) for name in config.methods]
    return table(header, lines, "l" + "r" * len(columns))


def epochs() -> str:
    """Table of the fresh samples that reshuffled epochs are worth, at the largest N."""
    from experiments import epochs as experiment
    from experiments._lib.rows import rows_of
    from experiments._lib.worth_of_passes import DRAWN, RESHUFFLED, Row, of

    found = recorded("epochs")
    config = found.config(experiment.Config)
    rows = rows_of(Row, found.rows)
    cells = [(tuple(pair), noise) for pair in config.exponents for noise in config.noises]
    lines = []
    for (a, b), noise in cells:
        for order in (RESHUFFLED, DRAWN):
            worth = [row.worth for row in of(rows, "worth", order, (a, b), noise, max(config.num_rows))]
            lines.append((f"{a:g}, {b:g}", f"{noise:g}", order, *(f"{each:.2f}" for each in worth)))
    return table(("a, b", "σ²", "order", *map(str, config.passes)), lines, "lll" + "r" * len(config.passes))


def small_batches() -> str:
    """Smallest, best and largest useful batch size of every method, D and noise."""
    (each,) = claims("small_batches", ("the smallest useful batch size",))
    pattern = r"(?:: |; )([^;:]+?), D = (\S+), σ² = (\S+): (\d+), (\d+), ([\d.]+)"
    found = re.findall(pattern, each["statement"])
    rows = [
        (name, tidy(samples), noise, *useful, short(float(most), 4))
        for name, samples, noise, *useful, most in sorted(found, key=lambda cells: (cells[0], *map(float, cells[1:3])))
    ]
    return table(("method", "D", "σ²", "smallest", "best", "largest, B\\*"), rows, "lrrrrr")


def small_batches_law() -> str:
    """Fits of steps with and without c/B²."""
    rows = []
    for each in claims("small_batches", ("steps of",)):
        text = each["statement"].replace("The same fits: ", "T38's waste: SGD ")
        pattern = r"(?:waste: |; )([^;:]+?) ([\d.]+%) without c, ([\d.]+%) with it(?:, c/b = (-?[\d.]+))?"
        for name, without, with_it, share in re.findall(pattern, text):
            rows.append((name, without, with_it, number(float(share or each["measured"]), 3), bold(each["verdict"])))
    return table(("method", "error of a + b/B", "of a + b/B + c/B²", "c/b", "verdict"), rows)


def rate_rule() -> str:
    """Slopes of the best rate in B at fixed samples and at fixed steps."""
    found: dict[tuple[str, str], list[str]] = {}
    pattern = r"(?:: |; )([^;:]+?), (a = [\d.]+, b = [\d.]+): (-?[\d.]+) \((-?[\d.]+)\)"
    chosen = claims("rate_rule", ("at fixed samples and small B", "at fixed steps and small B"))
    for each in chosen:
        for name, pair, slope, predicted in re.findall(pattern, each["statement"]):
            found.setdefault((name, pair), []).append(f"{tidy(slope)} ({tidy(predicted)})")
    kept = [f"{fixed}: slope (predicted)" for fixed in ("fixed samples, D = 10⁶", "fixed steps, n = 10⁵")]
    return table(("method", "problem", *kept), [(*key, *cells) for key, cells in found.items()])


def published() -> str:
    """Properties of the schedules of 124M models, and of three problems in theory."""
    shown = ("SGD, a = 1.2, b = 1.4", "SGD, a = 2, b = 3", "Adam, a = 1.5, b = 1.2", "Adam, a = 2, b = 1.5")
    rows = []
    for each in claims("published", ("124M models",)):
        if each["interval"]:
            values = [found_in(rf"{case}: (-?[\d.]+)", each["statement"])[0] for case in shown]
            measured = estimate(each["measured"], each["interval"])
            rows.append((tidy(each["claim"].removeprefix("124M models: ")), measured, *map(tidy, values)))
    return table(("property", "124M runs (95%)", *shown), rows)


def ramp_or_decay() -> str:
    """Risk of a ramp over that of a decay, at equal γ and with γ tuned for each."""
    equal = claims("ramp_or_decay", ("decay and ramp have the same risk",))
    tuned = claims("ramp_or_decay", ("risk of a ramp",))
    rows = []
    for first, second in zip(equal, tuned, strict=True):
        ((pair, _),) = cases(first["claim"] + ": ")
        ratio, _, growth = first["measured"].partition("; largest factor ∝ ")
        cells = (tidy(ratio), tidy(growth), bold(first["verdict"]), tidy(second["measured"]), bold(second["verdict"]))
        rows.append((pair, *cells))
    header = ("a, b", "ramp over decay, equal γ", "the largest grows like", "verdict", "γ tuned for each", "verdict")
    return table(header, rows)


def momentum() -> str:
    """The gain of the best β at each D."""
    rows = []
    for each in claims("momentum", ("momentum raises B*",)):
        ((pair, _),) = cases(each["claim"] + ": ")
        gains = re.findall(r"D = 1e\+0?(\d+): ([\d.]+) \(heavy ball, β = ([\d.]+)\)", each["statement"])
        cells = [f"{float(gain):.1f} (β = {beta})" for _, gain, beta in gains]
        rows.append((pair, *cells, bold(each["verdict"])))
    return table(("a, b", "D = 10⁴", "10⁵", "10⁶", "10⁷", "verdict"), rows)


def weight_decay() -> str:
    """B* with the largest mild weight decay over that without, and what weight decay does to the risk."""
    rows = []
    for each in verdicts("weight_decay"):
        ((pair, _),) = cases(each["claim"] + ": ")
        at = re.findall(r"κ √D = ([\d.]+) at D = (\S+?)(?:,|\. )", each["statement"])
        (least,) = found_in(r"is ([\d., ]+) of that without", each["statement"])
        used = ", ".join(f"{decay} (D = {tidy(size)})" for decay, size in at)
        rows.append((pair, used, number(each["measured"], 3), least, bold(each["verdict"])))
    over = ("B\\* over that without", "least risk over that without")
    return table(("a, b", "κ √D that raises the risk by less than 2%", *over, "verdict (within 20%)"), rows)


def averaging() -> str:
    """An average at constant rate against decay, and against its own last iterate."""
    rows = [
        (tidy(each["claim"]), estimate(each["measured"], each["interval"]), bold(each["verdict"]))
        for each in verdicts("averaging")
    ]
    return table(("claim", "measured (95%)", "verdict"), rows)


MADE: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        *(bounds, schedules_risk, schedules_critical, averages, averages_risk),
        *(optimal_schedule_shape, optimal_schedule_losses, optimal_exponents, optimal_exponents_ratios),
        *(optimal_ramp_shape, optimal_ramp_steps, optimizers, optimizers_risk, model_size_compute, muon, epochs),
        *(small_batches, small_batches_law, rate_rule, published, ramp_or_decay, momentum, weight_decay, averaging),
    )
}
