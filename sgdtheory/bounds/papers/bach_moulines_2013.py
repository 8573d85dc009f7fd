"""Bach & Moulines 2013: averaged SGD with a constant step, with all constants."""

import numpy as np

from sgdtheory.bounds.published import Asked, PublishedBound, Statement


def _statement(asked: Asked) -> Statement:
    """`E f(w̄) − f* ≤ (1/2n) [σ√d/(1 − √(γR²)) + R‖w_0 − w*‖/√(γR²)]²`, f − f* half of the excess risk."""
    edge = asked.rate * asked.fourth
    noise = np.sqrt(asked.noise_and_dim / asked.batch) / (1 - np.sqrt(edge))
    start = np.sqrt(asked.distance(1) / asked.rate)
    return Statement((noise + start) ** 2 / asked.steps, {"γ < 1/R²": edge < 1})


bach_moulines_2013 = PublishedBound(
    name="bach_moulines_2013",
    side="upper",
    source="Bach & Moulines, NeurIPS 2013 (arXiv 1306.2119), Theorem 1",
    read="in full",
    about="E f(w̄) − f(w*), f half of the mean square error, w̄ the mean of w_0 … w_{n−1}",
    batches="B = 1; the proof asks for E Ĥ² ≼ R² H and noise of covariance σ² H alone, which batches have too",
    statement=_statement,
)
