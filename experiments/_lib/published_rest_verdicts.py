"""Verdicts on published tables: repeated data, optimizers by batch size, weight decay by width, small batches."""

from typing import Any

import numpy as np

from experiments._lib.published_numbers import BETA2_LOSSES, TIMESCALE_POWER, Range
from experiments._lib.published_rates import TOLERANCE, inside, named, span
from experiments._lib.published_rest import (
    ADAMW,
    AVERAGED,
    BATCH_LOSSES,
    DENSE,
    DENSE_NO_KINK,
    EXPERTS,
    EXPERTS_ABOUT_KINK,
    EXPERTS_ABOUT_POWER,
    EXPERTS_NO_KINK,
    FEW,
    FLAT,
    LAST,
    LION,
    MUON,
    NANOCHAT_POWER,
    NO_WARMUP,
    SMALL_BATCH_SHARE,
    SMALL_BATCHES,
    WARMUP_STEPS,
    flat_limit,
    increases,
    limit_power,
    published_cost_power,
    reuse,
    small_costs,
    width_powers,
)
from experiments._lib.published_theory import SIGNUM, Pair, Row
from experiments._lib.results import Verdict


def rest_verdicts(config: Any, rows: list[Row]) -> tuple[Verdict, ...]:
    """Return the verdicts on these tables; `config` is that of the experiment."""
    return (
        *_repeated(config.rest, rows),
        *(_batches(config.rest, rows) if config.rest.batches else []),
        *_weight_decay_by_width(),
        *_small_batches(config, rows),
        *_experts(),
    )


def _text(value: Range) -> str:
    return f"{value.value:.3g} ({value.low:.3g} … {value.high:.3g})"


# ------------------------------------------------------------------ repeated data


def growth(found: dict[float, float]) -> float:
    """Return the slope of ln E in ln N between the two largest N."""
    (n0, e0), (n1, e1) = sorted(found.items())[-2:]
    return float(np.log(e1 / e0) / np.log(n1 / n0))


def _repeated(config: Any, rows: list[Row]) -> list[Verdict]:
    """arXiv 2511.13421: E(K, N), the data of one epoch that K epochs over N samples are worth, over N."""
    early = {pair: sorted(reuse(rows, pair, f"{LAST}, 2 reshuffled epochs").items()) for pair in config.repeated}
    gaps = {pair: [FEW - value for _, value in found] for pair, found in early.items()}
    text = "; ".join(
        f"{named(pair)}: " + ", ".join(f"{value:.3f} (N = {size:g})" for size, value in found)
        for pair, found in early.items()
    )
    close = [all(0 <= later < sooner for sooner, later in zip(each, each[1:], strict=False)) for each in gaps.values()]
    few = Verdict(
        "few epochs are worth as much as fresh data: E(2, N) → 2 (arXiv 2511.13421)",
        f"E of two reshuffled epochs, last iterate at the best constant γ. In theory (T42) "
        f"E(K, N) → K where E(∞, N) is large. Holds if E comes closer to 2 as N grows on every problem: {text}",
        f"{min(found[-1][1] for found in early.values()):.2f} … {max(found[-1][1] for found in early.values()):.2f}",
        "2",
        None,
        "holds" if all(close) else "inconclusive" if any(close) else "fails",
    )
    flat = reuse(rows, FLAT, f"{LAST}, many epochs")
    (n0, e0), (n1, e1) = sorted(flat.items())[-2:]
    slope = (e1 - e0) / np.log(n1 / n0)
    expected = (flat_limit(n1) - flat_limit(n0)) / np.log(n1 / n0)
    convex = Verdict(
        "strongly convex: E(∞, N) grows like log N (arXiv 2511.13421)",
        f"Slope of E in ln N, of the last iterate at the best constant γ, between the two largest N, with eight equal "
        f"eigenvalues. In theory E = [ln(4EN/d) + 1]/4, whose slope is {expected:.3f} here. Holds if the two agree "
        f"within ±{TOLERANCE:g}. E is {e0:.2f} and {e1:.2f}, in theory {flat_limit(n0):.2f} and {flat_limit(n1):.2f}",
        f"{expected:.3f}",
        slope,
        None,
        "holds" if abs(slope - expected) <= TOLERANCE else "fails",
    )
    errors, texts = [], []
    for pair in config.repeated:
        found = growth(reuse(rows, pair, f"{LAST}, many epochs"))
        errors.append(found - limit_power(pair, LAST))
        texts.append(f"{named(pair)}: {found:.3f} ({limit_power(pair, LAST):.3f})")
    power = Verdict(
        "power laws: E(∞, N) grows with N (arXiv 2511.13421), like N^((a − 1)/b)",
        f"Slope of ln E in ln N for many epochs, last iterate at the best constant γ, between the two largest N, with "
        f"the derived exponent in brackets. Holds if all are within ±{TOLERANCE:g}: {'; '.join(texts)}",
        "error 0",
        f"errors {min(errors):+.3f} … {max(errors):+.3f}",
        span(errors),
        inside(errors, -TOLERANCE, TOLERANCE),
    )
    averaged = {
        pair: growth(reuse(rows, pair, f"{AVERAGED}, many epochs"))
        for pair in (FLAT, *config.repeated)
        if limit_power(pair, AVERAGED) == 0
    }
    grows = [value > TOLERANCE for value in averaged.values()]
    text = "; ".join(
        f"{'strongly convex' if pair == FLAT else named(pair)}: {value:+.3f}" for pair, value in averaged.items()
    )
    returned = Verdict(
        "larger data can be repeated more with averaged iterates, too",
        f"Slope of ln E in ln N for many epochs of averaged SGD, strongly convex or a < b ≤ 2a + 1. In theory it is 0: "
        f"one epoch of averaged SGD reaches the best power of N. Fails if no slope is above {TOLERANCE:g}: {text}",
        f"{min(averaged.values()):+.3f} … {max(averaged.values()):+.3f}",
        "above 0",
        None,
        "holds" if all(grows) else "inconclusive" if any(grows) else "fails",
    )
    return [few, convex, power, returned]


# ------------------------------------------------------------------ optimizers by batch size


def _published_increases(method: str, multiple: int) -> np.ndarray:
    losses = np.array(BATCH_LOSSES[method][multiple])
    return losses[1:] - losses[0]


def _ratios(config: Any, rows: list[Row], method: str, other: str) -> dict[tuple[Pair, int], np.ndarray]:
    """Return the increases of a method over those of another one, by problem and data."""
    return {
        (pair, multiple): increases(rows, method, pair, multiple) / increases(rows, other, pair, multiple)
        for pair in config.batches
        for multiple in config.multiples
    }


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2f}" for value in values.tolist())


def _batches(config: Any, rows: list[Row]) -> list[Verdict]:
    """marin's optimizers by batch size, at the learning rate that is best at 128 sequences."""
    verdicts = []
    stands = {LION: (LION, "Lion with its β₁ and β₂"), MUON: (SIGNUM, "signSGD with momentum 0.95 in place of Muon")}
    for method, (mine, words) in stands.items():
        published = {}
        for multiple in config.multiples:
            one, other = (_published_increases(each, multiple) for each in (method, ADAMW))
            both = min(one.size, other.size)
            published[multiple] = one[:both] / other[:both]
        every = np.concatenate(list(published.values()))
        theory = _ratios(config, rows, mine, ADAMW)
        values = np.concatenate(list(theory.values()))
        side = np.sign(np.log(every))
        agree = np.concatenate([np.sign(np.log(each)) for each in theory.values()])
        wanted = np.tile(side, len(config.batches))
        text = "; ".join(f"{named(pair)}, {multiple}×: {_listed(each)}" for (pair, multiple), each in theory.items())
        verdicts.append(
            Verdict(
                f"{method} loses {'more' if method == LION else 'less'} than AdamW as B grows at a fixed γ (marin)",
                f"Increase in loss from 128 sequences to 256 and 512, over that of AdamW, at the learning rate that is "
                f"best at 128. On 130M models it is "
                f"{'; '.join(f'{_listed(each)} ({multiple}× data)' for multiple, each in published.items())}. Theory: "
                f"increase in excess risk with {words}; AdamW and Lion have the warm-up of {WARMUP_STEPS:,} steps of "
                f"the runs. Holds if theory and runs are on the same side of 1 for every batch size and problem, fails "
                f"if for none: {text}",
                f"{values.min():.2f} … {values.max():.2f}",
                f"{every.min():.2f} … {every.max():.2f}",
                span(every.tolist()),
                "holds" if (agree == wanted).all() else "inconclusive" if (agree == wanted).any() else "fails",
            )
        )
    plain = _ratios(config, rows, NO_WARMUP, ADAMW)
    shares = {key: 1 - float(each[0]) for key, each in plain.items()}
    text = "; ".join(f"{named(pair)}, {multiple}×: {share:.2f}" for (pair, multiple), share in shares.items())
    first = [share for (_, multiple), share in shares.items() if multiple == min(config.multiples)]
    verdicts.append(
        Verdict(
            "a warm-up that keeps its steps explains AdamW's loss at the larger B (marin)",
            f"Share of AdamW's increase from 128 to 256 sequences in theory that runs without warm-up do not have. "
            f"With 20 tokens per parameter the warm-up is {WARMUP_STEPS:,} of 2,480 steps at 256. Holds if it is "
            f"above one half at 1× data on every problem, fails if on none: {text}",
            f"{min(first):.2f} … {max(first):.2f}",
            "above 0.5",
            None,
            "holds" if min(first) > 0.5 else "inconclusive" if max(first) > 0.5 else "fails",
        )
    )
    return verdicts


# ------------------------------------------------------------------ weight decay by width


def _weight_decay_by_width() -> list[Verdict]:
    """nanochat: batch size and learning rate are the same at all widths, and data grow with all parameters."""
    found, data = width_powers()
    rules = {
        "its share of the run": -data,
        "its samples (or the weight decay)": 0.0,
    }
    half = (TIMESCALE_POWER + 1) * -data
    return [
        Verdict(
            f"the best weight decay ∝ width^{NANOCHAT_POWER:g} (nanochat): the memory keeps {rule}",
            f"Power of the width in the best weight decay of Muon at 4 widths, with γ and B the same. The log has "
            f"{NANOCHAT_POWER}; a line through the four values that it lists has {_text(found)}, 95% of t. Data grow "
            f"like width^{data:.2f}. By T49 the memory is B/(γλ) samples and the share τ = B/(γλD). The law at a fixed "
            f"model size, λ ∝ D^{-(TIMESCALE_POWER + 1):.3f}, has {half:.2f}. Holds if the rule's power is in the "
            f"interval",
            f"{power:.2f}",
            found.value,
            (found.low, found.high),
            inside([power], found.low, found.high),
        )
        for rule, power in rules.items()
    ]


# ------------------------------------------------------------------ small batches


def _small_batches(config: Any, rows: list[Row]) -> list[Verdict]:
    """The term G/B^r of the joint law, and what a fixed β₂ = 0.95 costs."""
    table = published_cost_power(config.replicas, config.seed)
    shares = [losses[64][0] / min(losses[64]) - 1 for losses in BETA2_LOSSES.values()]
    of_size = Verdict(
        "step-law's G/B^r is as large as the cost of β₂ = 0.95 at 64 sequences",
        f"Share of the loss. The public table has {', '.join(f'{each:.2%}' for each in shares)} for its two "
        f"models, step-law's G/B^r {SMALL_BATCH_SHARE.value:.2%} ({SMALL_BATCH_SHARE.low:.2%} … "
        f"{SMALL_BATCH_SHARE.high:.2%}). Holds if both are in this interval, fails if none is",
        f"{min(shares):.2%} … {max(shares):.2%}",
        SMALL_BATCH_SHARE.value,
        (SMALL_BATCH_SHARE.low, SMALL_BATCH_SHARE.high),
        inside(shares, SMALL_BATCH_SHARE.low, SMALL_BATCH_SHARE.high),
    )
    if not config.rest.small:
        return [of_size]
    costs = {pair: small_costs(rows, pair) for pair in config.rest.small}
    powers = [power for power, _ in costs.values()]
    text = "; ".join(f"{named(pair)}: {power:.2f} (cost {cost:.2%})" for pair, (power, cost) in costs.items())
    return [
        Verdict(
            "the power of B in step-law's G/B^r is that of the cost of β₂ = 0.95",
            f"Power r. The extra noise of β₂ = 0.95 comes from the excess kurtosis of batch gradients, which is ∝ 1/B, "
            f"so that r = 1 (T38). In theory at D = {config.rest.small_samples:g}, from B = 1, 2 and 4, with the extra "
            f"cost of B = 1 over B = 16 as a share of the excess risk: {text}. The table of public losses by β₂ has "
            f"{_text(table)}. Step-law's dense runs have {_text(SMALL_BATCHES)}. Holds if all of the theory are in "
            f"step-law's interval, fails if none is",
            f"{min(powers):.2f} … {max(powers):.2f}",
            SMALL_BATCHES.value,
            (SMALL_BATCHES.low, SMALL_BATCHES.high),
            inside(powers, SMALL_BATCHES.low, SMALL_BATCHES.high),
        ),
        Verdict(
            "the power of B in the table of β₂ is that of the cost of β₂ = 0.95 in theory",
            "Power r of the cost of β₂ = 0.95 against the best β₂, from 64 to 512 sequences. The interval is that of "
            "the scatter of the table about parabolas in ln(1 − β₂). Holds if the theory is inside on every problem, "
            "fails if on none. The theory's values are those of the claim above",
            f"{min(powers):.2f} … {max(powers):.2f}",
            table.value,
            (table.low, table.high),
            inside(powers, table.low, table.high),
        ),
        of_size,
    ]


# ------------------------------------------------------------------ mixtures of experts


def _experts() -> list[Verdict]:
    """step-law's mixture-of-experts runs beside its dense runs."""
    texts = {
        "c": (
            "γ* moves with the duration as on dense models",
            "Exponent c of a power law without a kink, γ* ∝ D^−c B^p. The dense runs are those with the same batch "
            "sizes, 32 to 512 sequences, and at most 2.84·10¹⁰ tokens",
        ),
        "p": ("γ* rises with the batch size as on dense models", "Exponent p of the same law"),
        "B* by D": (
            "B* of the losses grows with the data as on dense models",
            "Growth of B* with D at a fixed model in the joint law, of all dense runs and of the mixtures of experts",
        ),
    }
    same = [
        Verdict(
            f"step-law's mixtures of experts: {texts[name][0]}",
            f"{texts[name][1]}: {_text(DENSE[name])} and {_text(found)}. Holds if the two intervals overlap",
            f"{DENSE[name].low:.2f} … {DENSE[name].high:.2f}",
            found.value,
            (found.low, found.high),
            "holds" if found.low <= DENSE[name].high and DENSE[name].low <= found.high else "fails",
        )
        for name, found in EXPERTS.items()
    ]
    kink = Verdict(
        "step-law's mixtures of experts: γ* has the kink of dense models",
        f"p-value of a power law without a kink, on 708 runs of 4 models at 4 data sizes. The dense runs of the same "
        f"batch sizes and data have {DENSE_NO_KINK:g}. The kinked law of these, with active parameters and free "
        f"levels, leaves errors of ln γ* of {EXPERTS_ABOUT_KINK:g}, a power law {EXPERTS_ABOUT_POWER:g}. Holds if a "
        f"power law is refuted at 0.05",
        "below 0.05",
        EXPERTS_NO_KINK,
        None,
        "holds" if EXPERTS_NO_KINK < 0.05 else "fails",
    )
    return [*same, kink]
