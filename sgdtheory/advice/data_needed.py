"""The data to the same loss after a change of batch size: is a batch size of 64 worse than one of 32?

With steps a + b/B a target takes a B + b samples (T13), so with 𝓑 = b/a

    extra = (B' + 𝓑)/(B + 𝓑) − 1,   B* = ω 𝓑,

where B* needs a share ω = 20% more data than small batches. Signs lose data at small batches: κ_B = B/c_B² times that
of SGD, π²/4 at B = 1, 2 at 2, π/2 at large B (T37).
"""

import math

import numpy as np

from sgdtheory.advice.evidence import OVERHEAD, Evidence
from sgdtheory.advice.row import AdviceRow, Estimate
from sgdtheory.advice.setup import TrainingSetup

SMALLEST = {  # what small batches waste in theory, at most
    "sgd": "smaller batches never need more data (T13)",
    "sign": "small batches need more: 57% at B = 1, 27% at 2, 13% at 4 (T37), less with momentum",
    "adam": "B = 1 needs 2.6% more at β₂ = 0.95, nothing at a half-life fixed in samples (T38)",
}


def extra_data_row(current: TrainingSetup, new: float, family: str, known: Evidence) -> AdviceRow:
    """Share of data that the same loss takes more (or, below 0, less)."""
    old = current.batch_size
    waste = math.log(noise_factor(new) / noise_factor(old)) if family == "sign" and not current.beta1 else 0.0
    if known.critical is not None and known.stated is not None:
        size = known.critical
        values = [_of_batch(old, new, each) for each in (size.value, size.low, size.high)]
        found = Estimate(values[0], min(values), max(values))
        reason = f"steps a + b/B with {known.stated.text}"
        source = f"{known.source}; T13"
    else:
        found = _unknown(new / old)
        reason = f"not more than {OVERHEAD:.0%} either way if both are at most B*, which is not known"
        source = "definition of B*; T13"
    value, low, high = (math.expm1(math.log1p(each) + waste) for each in found)
    return AdviceRow("extra_data", 0.0, value, low, high, f"{reason}; {SMALLEST[family]}", source)


def _of_batch(old: float, new: float, critical: float) -> float:
    if np.isinf(critical):
        return 0.0
    return (new + critical / OVERHEAD) / (old + critical / OVERHEAD) - 1


def _unknown(ratio: float) -> Estimate:
    """B* at the larger of the two is the most that can be lost, or won."""
    worst = _of_batch(1.0, ratio, max(1.0, ratio))
    return Estimate(0.0, min(0.0, worst), max(0.0, worst))


def noise_factor(batch: float) -> float:
    """κ_B = B/c_B² of signs, c_B = Γ(B) 2^(2−B)/Γ(B/2)² (T37); 1.57 at large B."""
    slope = math.lgamma(batch) + (2 - batch) * math.log(2) - 2 * math.lgamma(batch / 2)
    return batch * math.exp(-2 * slope)
