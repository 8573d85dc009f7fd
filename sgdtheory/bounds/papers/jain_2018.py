"""Jain et al. 2018: mini-batches and tail averages, stated for every batch size."""

import numpy as np

from sgdtheory.algorithms import Algorithm, TailAverage
from sgdtheory.bounds.published import Asked, PublishedBound, Statement


def _statement(asked: Asked) -> Statement:
    """`E L(w̄) − L* ≤ 2 (1 − γμ)^s (L(w_0) − L*)/(γμ(N − s))² + 4σ²_MLE/(B(N − s))`, `σ²_MLE = ½σ²d`."""
    kept = np.ceil(asked.steps / 2)
    skipped = asked.steps - kept
    shrunk = (1 - asked.rate * asked.smallest) ** skipped * asked.spectrum.initial_risk
    start = 2 * shrunk / (asked.rate * asked.smallest * kept) ** 2
    noise = 4 * asked.noise_and_dim / (asked.batch * kept)
    conditions = {
        "γ ≤ B/(R² + (B − 1)‖H‖)": asked.rate * asked.fourth <= 1,
        "μ > 0": np.logical_and(asked.smallest > 0, asked.rate > 0),
    }
    return Statement(start + noise, conditions)


jain_2018 = PublishedBound(
    name="jain_2018",
    side="upper",
    source="Jain, Kakade, Kidambi, Netrapalli & Sidford, JMLR 18(223) 2018 (arXiv 1610.03774), Theorem 1",
    read="not verified against the paper; proved anew for noise that does not depend on x, as here",
    about="E L(w̄) − L(w*), L half of the mean square error, w̄ the mean of w_{s+1} … w_N, here of w_s … w_{N−1}, s half",
    batches="as published",
    statement=_statement,
    algorithm=Algorithm(average=TailAverage(0.5)),
)
