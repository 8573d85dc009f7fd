"""What momentum makes of signs: the slope of E sign(m) at 0 exactly, and how far signs are correlated (THEORY.md T37).

m = Σ p_k G_k with `G_k = χ_k² u/B + χ_k z_k/√B`, in units of the gradient's noise. Its characteristic function is the
product of `(1 + ω² p_k²/B)^{−B/2}`, and

    ∂E sign(m)/∂u = (2/π) ∫_0^∞ Σ_k p_k (1 + ω² p_k²/B)^{−1} Π_j (1 + ω² p_j²/B)^{−B/2} dω    at u = 0.
"""

from functools import lru_cache

import numpy as np

FORGOTTEN = 1e-6  # of the newest weight: older gradients are left out
MOST = 1000  # steps that are told apart
WIDEST = -16.0, 9.0  # log ω
APART = 0.06
LAGS = 1e-9  # of β^h: longer lags do not count


def sign_gain(momentum: float, number: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """(P,) slope at 0 over that of a Gaussian m of the same variance, `√(2/π) Σ p_k/√(Σ p_k²)`, at steps from 0 on."""
    tables = [_table(momentum, size) for size in batch.tolist()]
    places = np.minimum(number, tables[0].size - 1)
    return np.array(
        [np.interp(place, np.arange(table.size), table) for place, table in zip(places, tables, strict=True)]
    )


@lru_cache(maxsize=1024)
def _table(momentum: float, batch: float) -> np.ndarray:
    """After 1, 2, … steps."""
    size = int(min(np.ceil(np.log(FORGOTTEN) / np.log(momentum)), MOST))
    weights = momentum ** np.arange(size)
    frequency = np.exp(np.arange(*WIDEST, APART))
    squares = (frequency * weights[:, None]) ** 2 / batch
    product = np.exp(-batch / 2 * np.cumsum(np.log1p(squares), axis=0))
    shares = np.cumsum(weights[:, None] / (1 + squares), axis=0)
    slopes = 2 / np.pi * APART * (frequency * shares * product).sum(axis=1)
    return slopes / (np.sqrt(2 / np.pi) * np.cumsum(weights) / np.sqrt(np.cumsum(weights**2)))


@lru_cache(maxsize=64)
def correlated(momentum: float) -> float:
    """How many times more the rest of a sign scatters in the long run than by itself.

    Signs of Gaussians with correlation ρ have (2/π) arcsin ρ, of which (2/π) ρ follows m.
    """
    lags = np.arange(1, np.ceil(np.log(LAGS) / np.log(momentum)))
    along = momentum**lags
    return float(1 + 2 * (np.arcsin(along) - along).sum() / (np.pi / 2 - 1))


def fourth_moment(momentum: float, seen: np.ndarray) -> np.ndarray:
    """Return Σ p⁴/(Σ p²)² of the weights p of m over the steps seen: 1 at the first, (1 − β²)/(1 + β²) in the end."""
    fourth = (1 - momentum ** (4 * seen)) / (1 - momentum**4)
    return fourth / ((1 - momentum ** (2 * seen)) / (1 - momentum**2)) ** 2
