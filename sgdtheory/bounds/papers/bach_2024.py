"""Bach's book: averaged SGD with a small constant step; the noise does not fall."""

from sgdtheory.bounds.published import Asked, PublishedBound, Statement


def _statement(asked: Asked) -> Statement:
    """`E F(w̄) − F* ≤ ‖w_0 − w*‖²/(2γn) + γσ²R²/2`, F half of the mean square error; its proof has tr H for that R²."""
    start = asked.distance(1) / (asked.rate * asked.steps)
    noise = asked.rate * asked.noise * asked.trace / asked.batch
    return Statement(start + noise, {"γ ≤ 1/R²": asked.rate * asked.fourth <= 1})


bach_2024 = PublishedBound(
    name="bach_2024",
    side="upper",
    source="Bach, Learning Theory from First Principles, 2024, section 5.4.3",
    read="as course notes quote it, with R² in place of tr H; proved here with tr H",
    about="E F(w̄) − F(w*), F half of the mean square error, w̄ the mean of w_0 … w_{n−1}",
    batches="B = 1; by the same proof with R² of batches and σ²/B",
    statement=_statement,
)
