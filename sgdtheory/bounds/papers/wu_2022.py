"""Wu et al. 2022: the last iterate, after a learning rate that is halved again and again in the second half."""

import numpy as np

from sgdtheory.algorithms import Algorithm, LastIterate, Stages
from sgdtheory.bounds.published import Asked, PublishedBound, Statement, nowhere

# The theorem has ⌈log₂(N − s)⌉ halvings, 10 if 512 < N − s ≤ 1024. With more steps ten leave noise above the bound.
HALVINGS = 10
KURTOSIS = 3.0  # Gaussian data have this α.
FRACTIONS = np.append(0.0, 0.5 + np.arange(1, HALVINGS) / (2 * HALVINGS))


def _statement(asked: Asked) -> Statement:
    """Return the bound with all constants 1, s = N/2, `K = N/(2 · 10)`, `k* : λ ≥ 1/(γK)` and `k† : λ ≥ 1/(γ(s + K))`.

    `Σ_i min{1/(γλ_iK), 1} (1 − γλ_i)^{2(s+K)} s_i` and
    `[α log(s + K) (Σ_{i≤k†} s_i/λ_i + (s + K)γ Σ_{i>k†} s_i)/((s + K)γ) + σ²]` times
    `k*/K + γ Σ_{k*<i≤k†} λ_i + γ²(s + K) Σ_{i>k†} λ_i²`.
    """
    if asked.spectrum.dim is None:
        return nowhere(asked, "finitely many directions")
    eigenvalues, signal = asked.spectrum.directions()
    rate = asked.rate[..., None]
    stage = (asked.steps / (2 * HALVINGS))[..., None]
    whole = asked.steps[..., None] / 2 + stage
    head = eigenvalues >= 1 / (rate * stage)
    wide = eigenvalues >= 1 / (rate * whole)
    safe = np.where(eigenvalues > 0, eigenvalues, 1.0)
    left = signal * (1 - rate * eigenvalues) ** (2 * whole)
    bias = np.sum(np.where(head, left / (rate * stage * safe), left), axis=-1)
    seen = np.sum(np.where(wide, signal / safe / (whole * rate), signal), axis=-1)
    learnt = np.where(head, 1 / stage, np.where(wide, rate * eigenvalues, rate**2 * whole * eigenvalues**2))
    driven = KURTOSIS * np.log(whole[..., 0]) * seen + asked.noise
    conditions = {
        "γ < 1/(3α tr H log(s + K))": 3 * KURTOSIS * asked.rate * asked.trace * np.log(whole[..., 0]) < 1,
        "B = 1": asked.batch == 1,
        "⌈log₂(N − s)⌉ halvings, ten": np.ceil(np.log2(asked.steps / 2)) == HALVINGS,
    }
    return Statement(bias + driven * np.sum(learnt, axis=-1), conditions)


wu_2022 = PublishedBound(
    name="wu_2022",
    side="upper",
    source="Wu, Zou, Braverman, Gu & Kakade, ICML 2022 (arXiv 2110.06198), upper bound",
    read="its abstract; the statement is not verified against the paper, and its constant is not known",
    about="E L(w_N) − L(w*), w_N the last iterate; here with ten halvings of γ in the second half of the run",
    batches="B = 1",
    statement=_statement,
    algorithm=Algorithm(schedule=Stages(FRACTIONS, 0.5 ** np.arange(HALVINGS)), average=LastIterate()),
    standing="order",
)
