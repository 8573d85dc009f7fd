"""Jain et al. 2017: the mean of the last half of the iterates forgets its start exponentially."""

import numpy as np

from sgdtheory.algorithms import Algorithm, TailAverage
from sgdtheory.bounds.published import Asked, PublishedBound, Statement


def _statement(asked: Asked) -> Statement:
    """`E L(w̄) − L* ≤ (√(½ e^{−γμt} R² ‖δ‖²) + √((1 + γR²/(1 − γR²)) σ²_MLE/(T − t)))²`, `σ²_MLE = ½σ²d`, ρ = 1."""
    kept = np.ceil(asked.steps / 2)
    skipped = asked.steps - kept
    edge = asked.rate * asked.fourth
    start = np.exp(-asked.rate * asked.smallest * skipped) * asked.fourth * asked.distance(1)
    noise = (1 + edge / (1 - edge)) * asked.noise_and_dim / (asked.batch * kept)
    return Statement((np.sqrt(start) + np.sqrt(noise)) ** 2, {"γ < 1/R²": edge < 1})


jain_2017 = PublishedBound(
    name="jain_2017",
    side="upper",
    source="Jain, Kakade, Kidambi, Netrapalli, Pillutla & Sidford, FSTTCS 2017 (arXiv 1710.09430), Theorem 1",
    read="as notes quote it in full, but for the definition of ρ, which is 1 here; proved here",
    about="E L(w̄) − L(w*), L half of the mean square error, w̄ the mean of w_t … w_{T−1}, here the last half",
    batches="B = 1; by the same proof with R² of batches and σ²/B",
    statement=_statement,
    algorithm=Algorithm(average=TailAverage(0.5)),
)
