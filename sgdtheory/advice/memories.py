"""β₁, β₂ and weight decay after a change of batch size: memories kept in samples.

A memory of 1/(1 − β) steps is one of B/(1 − β) samples; its half-life in samples stays where `β' = β^{B'/B}`. AdamW's
weights are an average of the last 1/(γλ) steps of updates (Wang & Aitchison 2024), which stays in samples where
γ'λ'/B' = γλ/B.

A short memory of v makes Adam a sign method, which wastes data (T37, T38): β₂ is not lowered below 0.8, which costs 1
to 2% of the risk beside 0.95; 0.44, 0.95 at 16 times the batch, costs 4 to 8% (a = 1.5 and 2, b = 1.5 and 3, D = 10⁵,
B = 64, β₁ = 0.9¹⁶, γ tuned).
"""

from sgdtheory.advice.row import AdviceRow, Estimate
from sgdtheory.advice.setup import TrainingSetup

SHORTEST = 0.8  # β₂: see above
# python -m benchmarks.advice --optimizer adam: both β by half-lives, or both kept, γ tuned anew
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


def weight_decay_row(current: TrainingSetup, new: float, rate: AdviceRow) -> AdviceRow | None:
    """λ, with γ' and its range."""
    if current.weight_decay is None:
        return None
    factors = Estimate(rate.new, rate.low, rate.high).times(1 / current.learning_rate).power(-1)
    found = factors.times(current.weight_decay * new / current.batch_size)
    reason = "the time-scale 1/(γλ) of AdamW's average is kept in samples, γλ ∝ B; the range is that of γ"
    return AdviceRow("weight_decay", current.weight_decay, *found, reason, "arXiv 2405.13698, 2505.13738")
