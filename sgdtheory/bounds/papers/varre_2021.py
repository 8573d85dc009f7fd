"""Varre, Pillaud-Vivien & Flammarion 2021: the last iterate where labels have no noise."""

from sgdtheory.algorithms import Algorithm, LastIterate
from sgdtheory.bounds.published import Asked, PublishedBound, Statement


def _statement(asked: Asked) -> Statement:
    """`‖w_0 − w*‖²/(γ n^{1 − γR²})`, up to a constant."""
    edge = asked.rate * asked.fourth
    value = asked.distance(1) / asked.rate * asked.steps ** (edge - 1)
    return Statement(value, {"γ < 1/R²": edge < 1, "σ² = 0": (asked.noise == 0) & (edge == edge)})


varre_2021 = PublishedBound(
    name="varre_2021",
    side="upper",
    source="Varre, Pillaud-Vivien & Flammarion, NeurIPS 2021 (arXiv 2102.03183)",
    read="its abstract; the rate as later abstracts quote it",
    about="E R(w_n), R half of the mean square error without label noise, w_n the last iterate",
    batches="B = 1; here with R² of batches",
    statement=_statement,
    algorithm=Algorithm(average=LastIterate()),
    standing="order",
)
