"""Dieuleveut, Flammarion & Bach 2017: averaged SGD forgets its start like 1/n²."""

from sgdtheory.algorithms import DEFAULT
from sgdtheory.bounds.published import Asked, PublishedBound, Statement


def _statement(asked: Asked) -> Statement:
    """`E f(w̄) − f* ≤ 3/(γn)² ‖H^{−½}δ‖² + 6σ²d/(n + 1) + 3d ‖H^{−½}δ‖²/(γ(n + 1))²`, without regularization.

    Its w̄ is the mean of n + 1 iterates: n is one less than the number of steps here.
    """
    far = asked.distance(2) / asked.rate**2
    last = asked.steps - 1
    start = far * (3 / last**2 + 3 * asked.dim / asked.steps**2)
    noise = 6 * asked.noise_and_dim / asked.steps
    conditions = {
        "γ ≤ 1/(2R²)": 2 * asked.rate * asked.fourth <= 1,
        "B = 1": asked.batch == 1,
        "two steps or more": asked.steps >= 2,
    }
    return Statement(2 * (start + noise), conditions)


dieuleveut_2017 = PublishedBound(
    name="dieuleveut_2017",
    side="upper",
    source="Dieuleveut, Flammarion & Bach, JMLR 18(101) 2017 (arXiv 1602.05419), Theorem 2 with λ = 0",
    read="not verified against the paper; another paper confirms its form",
    about="E f(w̄) − f(w*), f half of the mean square error, w̄ the mean of w_0 … w_n",
    batches="B = 1",
    statement=_statement,
    algorithm=DEFAULT,
    standing="unverified",
)
