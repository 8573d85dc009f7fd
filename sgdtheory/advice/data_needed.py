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

SMALL_BATCHES = {  # The advice states how much data small batches waste in theory, at most.
    "sgd": "smaller batches never need more data (T13)",
    "momentum": "smaller batches never need more data (T13)",
    "sign": "small batches need more: 57% at B = 1, 27% at 2, 13% at 4 without momentum (T37), less with it",
    "adam": "B = 1 needs 2.6% more at β₂ = 0.95, nothing at a half-life fixed in samples (T38)",
    "adamw": "B = 1 needs 2.6% more at β₂ = 0.95, nothing at a half-life fixed in samples (T38)",
}


def extra_data_row(current: TrainingSetup, new: float, optimizer: str, known: Evidence) -> AdviceRow:
    """Share of data that the same loss takes more (or, below 0, less)."""
    old = current.batch_size
    if known.critical is not None and known.stated is not None:
        size = known.critical
        ends = sorted(_of_batch(old, new, each) for each in (size.low, size.high))
        if known.extra_data is not None:
            ends = known.extra_data(old, new)
        found = Estimate(_of_batch(old, new, size.value), *ends)
        reason = f"steps a + b/B with {known.stated.text}"
        source = f"{known.source}; T13"
    else:
        limit = new / old - 1  # where B* is small: the steps stay, and the data grow with the batch size
        found = Estimate(0.0, min(0.0, limit), max(0.0, limit))
        reason = "none while both batch sizes are far below B*, which is not known; far beyond B* steps stay the same"
        source = "definition of B*; T13"
    if is_sign_without_memory(current, optimizer):
        waste = noise_factor(new) / noise_factor(old)
        found = Estimate(*((1 + each) * waste - 1 for each in found))
    small = SMALL_BATCHES.get(optimizer, "what small batches cost is not known")
    return AdviceRow("extra_data", 0.0, *found, f"{reason}; {small}", source)


def is_sign_without_memory(current: TrainingSetup, optimizer: str) -> bool:
    """Tell whether steps are the signs of single gradients, whose data law T37 is."""
    return optimizer == "sign" and current.beta1 == 0


def _of_batch(old: float, new: float, critical: float) -> float:
    if np.isinf(critical):
        return 0.0
    return (new + critical / OVERHEAD) / (old + critical / OVERHEAD) - 1


def noise_factor(batch: float) -> float:
    """κ_B = B/c_B² of signs, c_B = Γ(B) 2^(2−B)/Γ(B/2)² (T37); 1.57 at large B."""
    slope = math.lgamma(batch) + (2 - batch) * math.log(2) - 2 * math.lgamma(batch / 2)
    return batch * math.exp(-2 * slope)
