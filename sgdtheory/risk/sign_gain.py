"""Signs of a momentum: the exact slope of E sign(m) at 0, and the correlation of signs (THEORY.md T37).

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
LEAST_CORRELATION = (
    1e-4  # Signs that correlate less are left out: arcsin ρ − ρ is ρ³/6, and the sum then right to 1e-8.
)
DENSITY = 12  # Steps of the table per doubling: with half as many it is interpolated to 1e-3 instead of 3e-4.


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


def correlated(momentum: float, number: np.ndarray) -> np.ndarray:
    """Return how many times more the rest of a sign scatters u at steps from 0 on than by itself, (P,).

    Signs of Gaussians with correlation ρ have (2/π) arcsin ρ, of which (2/π) ρ follows m. Noise that has been summed
    for t + 1 steps has the correlation `β^h √((1 − β^{2(t − h + 1)})/(1 − β^{2(t + 1)}))` with that h steps before:

        1 + 2 Σ_{h ≤ t} (arcsin ρ_h − ρ_h)/(π/2 − 1).
    """
    steps, table = _correlated(momentum)
    return np.interp(number, steps, table)


@lru_cache(maxsize=64)
def _correlated(momentum: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps of a table, some a doubling, and its values."""
    last = np.ceil(np.log(LEAST_CORRELATION) / np.log(momentum))
    steps = np.unique(np.append(0, np.round(np.geomspace(1, last, int(DENSITY * np.log2(last)) + 2))))
    found = np.ones(steps.size)
    for place, step in enumerate(steps):
        lag = np.arange(1, step + 1)
        seen = np.expm1(2 * (step - lag + 1) * np.log(momentum)) / np.expm1(2 * (step + 1) * np.log(momentum))
        along = momentum**lag * np.sqrt(seen)
        found[place] += 2 * (np.arcsin(along) - along).sum() / (np.pi / 2 - 1)
    return steps, found


def fourth_moment(momentum: float, seen: np.ndarray) -> np.ndarray:
    """Return Σ p⁴/(Σ p²)² of the weights p of m over the steps seen: 1 at the first, (1 − β²)/(1 + β²) in the end."""
    fourth = (1 - momentum ** (4 * seen)) / (1 - momentum**4)
    return fourth / ((1 - momentum ** (2 * seen)) / (1 - momentum**2)) ** 2
