"""β₁, β₂ and weight decay after a change of batch size or data: memories kept in samples.

A memory of 1/(1 − β) steps is one of B/(1 − β) samples; its half-life in samples stays where `β' = β^{B'/B}`. AdamW's
weights are an average of the last 1/(γλ) steps of updates (Wang & Aitchison 2024), which stays in samples where
γ'λ'/B' = γλ/B. When the data D change, the best memory is neither the same number of samples nor the same share τ of
the run: at a fixed model size τ follows D^−0.527 (Bergsma et al. 2025, T49).

A short memory of v makes Adam a sign method, which wastes data (T37, T38): β₂ is not lowered below 0.8, which costs 1
to 2% of the risk beside 0.95; 0.44, 0.95 at 16 times the batch, costs 4 to 8% (a = 1.5 and 2, b = 1.5 and 3, D = 10⁵,
B = 64, β₁ = 0.9¹⁶, γ tuned).
"""

from sgdtheory._common.sheets import number
from sgdtheory.advice.row import AdviceRow, Estimate
from sgdtheory.advice.setup import TrainingSetup

SHORTEST = 0.8  # β₂ is not lowered below this value, which costs 1 to 2% of the risk beside 0.95 (see above).
# The best τ of AdamW on language models of 111M to 3.3B parameters is 1.084 (D/N)^−0.527
# (arXiv 2505.13738, R² = 0.975).
BEST_TIMESCALE = 1.084
TIMESCALE = 0.527  # The best τ falls with this power of D/N, by the same fit.
TOKENS_PER_PARAMETER = 20, 200  # The best τ is printed at these D/N: of a compute-optimal and an over-trained model.
# `python -m benchmarks.advice --optimizer adam` compares both β by half-lives with both β kept, γ tuned anew.
OPEN = "on random power laws up to B* keeping both β did as well (0.1% of the risk in the median, 9% and 5% at worst)"


def momentum_row(current: TrainingSetup, new: float, family: str) -> AdviceRow | None:
    """β₁."""
    if current.beta1 is None:
        return None
    scaled = current.beta1 ** (new / current.batch_size)
    low, high = sorted((scaled, current.beta1))
    if family == "sgd":
        reason = (
            "β is kept: while noise dominates only γ/(1 − β) counts, and large batches gain from momentum: the best "
            "one has 4 to 29 times the B* of SGD"
        )
        return AdviceRow("beta1", current.beta1, current.beta1, low, high, reason, "finding: momentum")
    reason = f"the half-life in samples is kept; {OPEN}"
    return AdviceRow("beta1", current.beta1, scaled, low, high, reason, "T38, T39; arXiv 2205.10287; benchmarks.advice")


def second_moment_row(current: TrainingSetup, new: float, optimizer: str) -> AdviceRow | None:
    """β₂; SGD has none, and Lion's is the memory of its momentum."""
    if current.beta2 is None or optimizer in ("sgd", "momentum"):
        return None
    scaled = current.beta2 ** (new / current.batch_size)
    low, high = sorted((scaled, current.beta2))
    if optimizer == "lion":
        reason = "the half-life of the momentum in samples is kept, as the learning rate above assumes"
        return AdviceRow("beta2", current.beta2, scaled, low, high, reason, "T54")
    new_beta = max(scaled, min(SHORTEST, current.beta2))
    reason = (
        f"the half-life in samples is kept, but β₂ not below {SHORTEST}: a memory of fewer than five steps would "
        f"make Adam a sign method, which wastes data; {OPEN}"
    )
    source = "T38; finding: small_batches; arXiv 2507.07101; benchmarks.advice"
    return AdviceRow("beta2", current.beta2, new_beta, low, high, reason, source)


def weight_decay_row(current: TrainingSetup, new: float, rate: AdviceRow, ratio: float) -> AdviceRow | None:
    """λ, with γ' and its range; the exponent of D has a range of its own."""
    if current.weight_decay is None:
        return None
    factors = Estimate(rate.new, rate.low, rate.high).times(1 / current.learning_rate).power(-1)
    kept = factors.times(current.weight_decay * new / current.batch_size)
    if ratio == 1 or current.timescale is None:
        reason = "the time-scale 1/(γλ) of AdamW's average is kept in samples, γλ ∝ B; the range is that of γ"
        return AdviceRow("weight_decay", current.weight_decay, *kept, reason, "arXiv 2405.13698, 2505.13738")
    unchanged = current.timescale * new / current.batch_size * factors.value / ratio
    found = Estimate(kept.value * ratio ** (TIMESCALE - 1), kept.low * min(1, 1 / ratio), kept.high * max(1, 1 / ratio))
    reason = (
        f"γλ ∝ B D^−{1 - TIMESCALE:.3f}: τ = B/(γλD), the memory of AdamW's average as a share of the run, follows "
        f"D^−{TIMESCALE:.3f} (measured at a fixed model size), between two rules: keeping the memory in samples gives "
        f"λ = {number(kept.value)}, keeping the share τ gives {number(kept.value / ratio)}; the range has both, and "
        f"that of γ; keeping λ itself gives τ = {number(unchanged)}"
    )
    return AdviceRow("weight_decay", current.weight_decay, *found, reason, "T49; arXiv 2405.13698, 2505.13738")


def timescale_row(current: TrainingSetup, optimizer: str, ratio: float, data: AdviceRow) -> AdviceRow | None:
    """τ of AdamW before and after; with the same data it changes with the extra data that the same loss takes.

    Args:
        current: settings.
        optimizer: name.
        ratio: of the data.
        data: the row of the extra data, which counts where the ratio is 1.
    """
    if optimizer not in ("adam", "adamw") or current.timescale is None:
        return None
    before = current.timescale
    if ratio == 1:
        found = Estimate(*(before / (1 + each) for each in (data.new, data.high, data.low)))
    else:
        found = Estimate(before * ratio**-TIMESCALE, min(before, before / ratio), max(before, before / ratio))
    usual = ", ".join(f"{BEST_TIMESCALE * tokens**-TIMESCALE:.2g} at {tokens}" for tokens in TOKENS_PER_PARAMETER)
    part = f"about the last {before:.0%} of the run" if before < 1 else "the whole run, since the decay is weak"
    reason = (
        f"τ = B/(γλD), with γ at its peak: the weights average the updates of {part}; "
        f"on language models the best τ was {BEST_TIMESCALE} (D/N)^−{TIMESCALE}, {usual} tokens per parameter"
    )
    return AdviceRow("timescale", before, *found, reason, "T49; arXiv 2505.13738")
