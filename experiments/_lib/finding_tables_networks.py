"""Tables of the findings on networks and on measurements, each from what its experiment recorded."""

import re
from collections.abc import Callable

import numpy as np

from experiments._lib.finding_text import (
    bold,
    claims,
    estimate,
    found_in,
    number,
    probability,
    recorded,
    short,
    table,
    tidy,
    verdicts,
)
from experiments._lib.rows import rows_of


def width_invariance(record: str = "width_invariance") -> str:
    """Slopes of B* by the law, of B* read off, and of b/a, on the width."""
    ways = ("B* does not", "B* by interpolation, without a law", "b/a does not")
    cells: dict[str, list[str]] = {}
    for way in ways:
        for each in claims(record, (way,)):
            if each["claim"].startswith(way):
                task = re.findall(r"\((.+)\)", each["claim"])[0]
                measured = estimate(each["measured"], each["interval"], sign=True)
                cells.setdefault(task, []).append(f"{measured} {bold(each['verdict'])}")
    header = ("µP, slope of log … on log width (95%)", "B\\* by the law", "B\\* by interpolation, without a law", "b/a")
    return table(header, [(task, *row) for task, row in cells.items()])


def width_invariance_gpu() -> str:
    """The same of wider networks on a GPU."""
    return width_invariance("width_invariance_gpu")


def width_standard() -> str:
    """The same in standard parametrization, and how the best rate goes with the width in both."""
    rows = []
    pattern = r"the slope is (.+?); the best γ goes like (\S+), under µP like (\S+)"
    for each in claims("width_invariance", ("B* does not change",)):
        found = re.search(pattern, each["statement"])
        if found:
            task = re.findall(r"\((.+)\)", each["claim"])[0]
            rows.append((task, *map(tidy, found.groups())))
    return table(("", "slope of B\\* by the law, standard (95%)", "best γ, standard", "best γ, µP"), rows)


def data_scaling() -> str:
    """Exponents of B* in D at every width, and where width and data grow together."""
    rows = []
    for each in verdicts("data_scaling"):
        task, where = re.findall(r"\((\w+), (.+)\)", each["claim"])[0]
        size = re.findall(r"D = (.+?) samples: B\* = (.+?);", each["statement"])[0]
        rows.append((task, where, estimate(each["measured"], each["interval"]), *size, bold(each["verdict"])))
    return table(("task", "where", "exponent of B\\* in D (95%)", "D", "B\\*", "verdict"), rows)


def ablations() -> str:
    """B* after a change over B* before, and how likely that is if nothing changes."""
    rows = []
    for each in verdicts("ablations"):
        change = each["claim"].removesuffix(" does not change B*")
        pattern = r"\((\w+)\), with common seeds.*no change has p = (\S+), .*comparisons (\S+)"
        task, alone, counted = found_in(pattern, each["statement"])
        ratio = f"{estimate(each['measured'], each['interval'])} {bold(each['verdict'])}"
        rows.append((tidy(change), task, ratio, alone, counted))
    header = ("change", "on", "B\\* after over before (95%)", "p-value of no change", "p, corrected for 23 comparisons")
    return table(header, rows)


def optimizers_networks() -> str:
    """Ratios of B* of optimizers, on both tasks."""
    cells: dict[str, dict[str, str]] = {}
    for each in verdicts("optimizers_networks"):
        task, claim = re.findall(r"(teacher|text)[:,] (.+)", each["claim"])[0]
        if "useful batch size" not in claim:
            ratio = f"{estimate(each['measured'], each['interval'])} {bold(each['verdict'])}"
            cells.setdefault(claim, {})[task] = ratio
    rows = [(tidy(claim), found["teacher"], found["text"]) for claim, found in cells.items()]
    return table(("claim", "teacher: ratio of B\\* (95%)", "text: ratio of B\\* (95%)"), rows)


def smallest_batches() -> str:
    """Data at the smallest batch size over the least at larger ones."""
    cells: dict[str, dict[str, str]] = {}
    for each in claims("optimizers_networks", ("useful batch size",)):
        task, method = re.findall(r"(teacher|text): with (.+) B = 2", each["claim"])[0]
        ratio = f"{estimate(each['measured'], each['interval'])} {bold(each['verdict'])}"
        cells.setdefault(method, {})[task] = ratio
    rows = [(method, found["teacher"], found["text"]) for method, found in cells.items()]
    return table(("data at B = 2 over the least", "teacher (95%)", "text (95%)"), rows)


def branching() -> str:
    """Exponents in D of B*, of branching and of the noise scale."""
    names = {
        "Branching grows like B* along one run": "branching, D/2",
        "Branching with a fixed catch-up grows like B* along one run": "branching, fixed catch-up",
        "The gradient noise scale grows like b/a along one run": "noise scale, one run",
        "The gradient noise scale grows like b/a at each D's best γ": "noise scale, best γ of each D",
    }
    cells: dict[str, dict[str, str]] = {}
    for each in verdicts("branching"):
        claim, _, task = each["claim"].removesuffix(")").rpartition(" (")
        if claim in names:
            slope = r"-?[\d.]+ \(-?[\d.]+ … -?[\d.]+\)"
            mine, other, which = re.findall(rf"({slope}) by .+?, ({slope}) of (B\*|b/a)", each["statement"])[0]
            cells.setdefault(task, {})[names[claim]] = f"{tidy(mine)} {bold(each['verdict'])}"
            cells[task][which] = tidy(other)
    columns = ("B*", "branching, D/2", "branching, fixed catch-up", "b/a", *list(names.values())[2:])
    header = ("exponent of D (95%)", *map(tidy, columns))
    return table(header, [(task, *(found[name] for name in columns)) for task, found in cells.items()])


def sign_features() -> str:
    """Predicted over observed at every batch size."""
    rows = []
    for each in verdicts("sign_features"):
        cells = re.findall(r"B = \d+: ([\d.]+(?: … [\d.]+)?) \(", each["statement"])
        low, high = each["interval"]
        rows.append((tidy(each["claim"]), *cells, f"{low:.2f} … {high:.2f}", bold(each["verdict"])))
    return table(("predicted over observed", "B = 4", "16", "64", "256", "all intervals", "within 1.3"), rows)


def trained_features() -> str:
    """Ratios of B* by the theory on learnt features and of the networks."""
    rows = []
    for each in verdicts("trained_features"):
        what = tidy(each["claim"].removesuffix(", from trained features, equals the networks'"))
        ours, theirs = found_in(r"predicted (\S+).*?, observed (\S+);", each["statement"])
        rows.append((what, ours, theirs, estimate(each["measured"], each["interval"]), bold(each["verdict"])))
    return table(("ratio", "theory", "networks", "theory over networks (95%)", "within 1.3"), rows)


def data_law_exponents() -> str:
    """The exponent of B* in D of every teacher, measured and predicted."""
    found: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in recorded("data_law").rows:
        key = (f"{float(row['capacity']):g}", f"{float(row['source']):g}")
        found.setdefault(key, {}).setdefault("all" if float(row["all_trained"]) else "output", row)

    def slope(row: dict[str, str], which: str) -> str:
        return number(float(row[f"slope_{which}"]))

    def measured(row: dict[str, str]) -> str:
        return f"{number(float(row['slope']))} ± {number(float(row['slope_error']))}"

    def corollary(row: dict[str, str], which: str) -> str:
        return number(float(row[f"exponent_{which}"])) if row[f"exponent_{which}"] else "—"

    rows = []
    for key, kinds in found.items():
        output, whole = kinds["output"], kinds["all"]
        three = ", ".join(corollary(whole, which) for which in ("before", "after", "last"))
        exact = [slope(whole, which) for which in ("before", "after", "last")]
        inputs = number(float(whole["exponent_inputs"]))
        rows.append((", ".join(key), measured(output), slope(output, "before"), measured(whole), *exact, three, inputs))
    features = ("tangents before training, exact", "tangents after, exact", "last layer after, exact")
    header = ("a, b", "output alone", "its features, exact", "all weights", *features)
    return table((*header, "Corollary 8 with the exponents of these three", "with the inputs' a, b"), rows)


def data_law() -> str:
    """Measured on predicted exponents, for every prediction."""
    rows = []
    for each in verdicts("data_law"):
        by, trained = re.findall(r"p by (.+) \((output|all)", each["claim"])[0]
        text = each["statement"]
        (slope,) = re.findall(r"errors in both: (\S+ \(.*?\)) \(95%\)", text)
        (apart,) = re.findall(r"measured less predicted (.+?) \(mean", text)
        correlation, share = re.findall(r"correlation (.+?), as high in (.+?) of random", text)[0]
        cells = (slope, apart, f"{correlation} ({share})")
        rows.append((trained, by[0].upper() + by[1:], *map(tidy, cells), bold(each["verdict"])))
    return table(("trained", "p predicted by", "slope (1: follows)", "difference", "correlation", "verdict"), rows)


def real_features() -> str:
    """B* of every feature set, predicted, and over what was observed."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in recorded("real_features").rows:
        if row["kind"] == "critical":
            ratio = float(row["gaussian"]) / float(row["measured"])
            found.setdefault(row["features"], []).append((float(row["index"]), float(row["gaussian"]), ratio))
    rows = []
    for name in sorted(found):
        cells = sorted(found[name])
        predicted = ", ".join(f"{each:.0f}" for _, each, _ in cells)
        rows.append((name, predicted, ", ".join(f"{each:.2f}" for _, _, each in cells)))
    header = ("features", "B\\* predicted at D = 128, 512, 2,048, 8,192, 16,384", "predicted over observed")
    return table(header, rows)


SAMPLES = {  # of MLPerf's benchmarks
    "bert": "sequences",
    "cosmoflow": "volumes",
    "deepcam": "images",
    "dlrm_dcnv2": "clicks",
    "gpt3": "sequences of 2048",
    "llama31_8b": "sequences of 8192",
    "maskrcnn": "images",
    "resnet": "images",
    "retinanet": "images",
    "rgat": "nodes",
    "rnnt": "utterances",
    "stable_diffusion": "images",
}


def mlperf() -> str:
    """Both laws on every benchmark."""
    found = {}
    sizes: dict[str, int] = {}
    for row in recorded("mlperf").rows:
        found.setdefault(row["benchmark"], row)
        sizes[row["benchmark"]] = sizes.get(row["benchmark"], 0) + 1
    rows = []
    for name, row in found.items():
        value = {key: float(cell) if cell else np.inf for key, cell in row.items() if key != "benchmark"}
        critical, balance = (
            f"{short(value[key])} ({short(value[f'{key}_low'])} … {short(value[f'{key}_high'])})"
            for key in ("critical", "balance")
        )
        alpha = f"{number(value['alpha'])} ({number(value['alpha_low'])} … {number(value['alpha_high'])})"
        plain, power = (
            f"{short(value[f'{kind}chi_square'])} / {sizes[name] - lost}, {probability(value[f'{kind}p_value'])}"
            for kind, lost in (("", 2), ("alpha_", 3))
        )
        rows.append((name, SAMPLES[name], critical, balance, plain, f"{value['misfit']:.1%}", alpha, power))
    header = ("benchmark", "batch size in", "B\\*", "b/a", "χ² of a + b/B, p", "misfit", "α", "χ² of a + b/B^α, p")
    return table(header, rows)


def loss_curves() -> str:
    """Means of R² and largest errors of every law on the curves held out."""
    from experiments import loss_curves as experiment

    rows = rows_of(experiment.Row, recorded("loss_curves").rows)
    models = ("25M", "100M", "400M")
    laws = (
        ("power of Σγ", np.nan, "`L0 + A (Σγ)^−α` (Chinchilla's at one size)", 3),
        ("multi-power law", np.nan, "multi-power law, fitted as the theory is (`fit_law`)", 7),
        ("theory, weights of constant norm", np.nan, "theory, weights of constant norm", 6),
        ("theory", 0.1, "theory, weight decay 0.1", 7),
    )
    lines = []
    for law, decay, name, numbers in laws:
        cells = []
        for model in models:
            square = list(experiment._values(rows, model, law, "r_square", decay).values())
            largest = max(experiment._values(rows, model, law, "largest", decay).values())
            cells += [f"{np.mean(square):.4f}", f"{largest:.2%}"]
        lines.append((name, str(numbers), *cells))
    published = [cell for model in models for cell in _published(experiment.MULTI_POWER[model])]
    lines.insert(2, ("multi-power law, as published", "7", *published))
    header = [cell for model in models for cell in (f"{model}: R²", "largest error")]
    return table(("law", "numbers", *header), lines)


def _published(values: tuple[float, float]) -> tuple[str, str]:
    return f"{values[0]:.4f}", f"{values[1]:.3%}"


def forecasts() -> str:
    """Bands that held and their widths, by how much of a run is known."""
    from experiments import forecasts as experiment

    found = recorded("forecasts")
    config = found.config(experiment.Config)
    rows = rows_of(experiment.Row, found.rows)
    every = experiment._cases(config, rows)
    held = {kind: experiment._inside(config, rows, kind) for kind in (experiment.WITH, experiment.WITHOUT)}
    widths = (
        experiment._half_widths(config, rows, experiment.WITH),
        experiment._simple_half_widths(config, every, experiment.POWER),
        experiment._simple_half_widths(config, every, experiment.LAST),
    )
    lines = []
    for cut in config.cuts:
        mine = np.array([row.cut == cut for row in every])
        ours, power, last = (f"{np.median(each[mine]):.2g}" for each in (100 * np.array(widths)))
        error = np.median([abs(row.error) for row in every if row.cut == cut])
        fall = np.median([row.fall for row in every if row.cut == cut])
        shares = [f"{np.mean(each[mine]):.0%}" for each in held.values()]
        lines.append((f"{cut:.0%}", *shares, f"{ours}%", f"{error:.2%}", f"{power}%", f"{last}%", f"{fall:.1%}"))
    simple = ("a power of Σγ: half width", "last loss: half width", "predicted fall, median")
    contain = ("bands that contain the loss", "without the theory's own error")
    own = (*contain, "half width of the band, median", "error, median")
    return table(("known of the run", *own, *simple), lines)


def forecasts_unseen() -> str:
    """Bands that contain the final loss of another group's runs, and their widths, by how much of a run is known."""
    from experiments import forecasts_unseen as experiment

    found = recorded("forecasts_unseen")
    rows = rows_of(experiment.Row, found.rows)
    kinds = experiment.OTHERS, experiment.OLD
    held = {kind: experiment.inside(rows, kind) for kind in kinds}
    widths = {kind: experiment.half_widths(rows, kind) for kind in kinds}
    lines = []
    for cut in found.config(experiment.Config).cuts:
        mine = np.array([row.cut == cut for row in rows])
        these = [row for row in rows if row.cut == cut]
        share = float(held[experiment.OTHERS][mine].mean())
        simple = [experiment.simple_half_width(these, way, share) for way in (experiment.POWER, experiment.LAST)]
        medians = [float(np.median(widths[kind][mine])) for kind in kinds]
        error = float(np.median(np.abs([row.error for row in these])))
        shares = [f"{held[kind][mine].mean():.0%}" for kind in kinds]
        lines.append((f"{cut:.0%}", *shares, *(f"{each:.1%}" for each in (*medians, error, *simple))))
    own = (
        "bands that contain the loss",
        "with the theory's error from 27 other runs",
        "half width, median",
        "half width with the error from 27 other runs, median",
    )
    simple = ("error, median", "a power of Σγ: half width", "last loss: half width")
    return table(("known of the run", *own, *simple), lines)


def over_training() -> str:
    """Errors of the laws by data set and by the runs that are left out, with the ratio of two of them."""
    from experiments import over_training as experiment

    rows = [each for each in rows_of(experiment.Row, recorded("over_training").rows) if each.variant == "none"]
    laws = "tied law", "β free", "Chinchilla"
    cells = {(each.split, each.table, each.law): each for each in rows}
    lines = []
    for split, name in dict.fromkeys((each.split, each.table) for each in sorted(rows, key=lambda each: each.split)):
        tied, *others = (cells[split, name, law] for law in laws)
        errors = [f"{each.error:.1%}" for each in (tied, *others)]
        ratio = f"{number(tied.ratio)} ({number(tied.ratio_low)} … {number(tied.ratio_high)})"
        lines.append(
            (split, name, f"{tied.runs:.0f}", *errors, ratio, f"{number(tied.made_ratio)}, {tied.made_share:.1%}")
        )
    header = (
        "left out",
        "data set",
        "runs",
        *laws,
        "tied law over Chinchilla",
        "the same where Chinchilla's law is true",
    )
    return table(header, lines, "llrrrr")


def curves_batch_size() -> str:
    """Steps and B* at other batch sizes, predicted from curves at one."""
    steps = claims("curves_batch_size", ("steps at other batch sizes",))
    critical = claims("curves_batch_size", ("B* from one batch size",))
    rows = []
    for first, second in zip(steps, critical, strict=True):
        case = first["claim"].split(": ", 1)[1]
        share = re.findall(r"middle 95%; (\d+%) of", first["statement"])[0]
        ratios = [estimate(each["measured"], each["interval"]) for each in (first, second)]
        rows.append((case, ratios[0], share, bold(first["verdict"]), ratios[1], bold(second["verdict"])))
    header = ("curves of", "steps, predicted/measured: median (middle 95%)", "within a factor of 1.3", "verdict")
    return table((*header, "B\\*, predicted/measured (95%)", "verdict"), rows)


def epochs_networks() -> str:
    """Table of the worth of repeated epochs to networks, measured and by the theory."""
    from experiments import epochs_networks as experiment
    from experiments._lib import passes_verdicts as passes

    found = recorded("epochs_networks")
    config = found.config(experiment.Config)
    rows = rows_of(experiment.Row, found.rows)
    lines = []
    for arm in config.arms:
        for noise in config.noises:
            for source in (passes.MEASURED, passes.BEFORE, passes.AFTER, passes.EXPONENTS):
                mine = passes.of(rows, arm, noise, source)
                cells = [f"{row.worth:.2f} ({row.low:.2f} … {row.high:.2f})" for row in mine]
                if source != passes.MEASURED:
                    cells = [number(row.worth) for row in mine]
                lines += [(arm, f"{noise:g}", source, *cells)] if mine else []
    header = ("trained", "σ²", "", *map(str, config.passes))
    return table(header, lines, "lll" + "r" * len(config.passes))


MADE: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        *(width_invariance, width_invariance_gpu, width_standard, data_scaling, ablations),
        *(optimizers_networks, smallest_batches, epochs_networks),
        *(branching, sign_features, trained_features, data_law_exponents, data_law, real_features),
        *(mlperf, loss_curves, forecasts, forecasts_unseen, over_training, curves_batch_size),
    )
}
