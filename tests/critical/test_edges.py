"""Edges between Chebyshev's points, against edges that are known."""

import numpy as np

from sgdtheory.critical.edges import NODES, Edges

SIZES = np.array([1.0, 3.7, 9.99, 45.0, 700.0, 3e9, 1e15])


def looked_for(edge, between):
    """Edges of all sizes, and how many were looked for."""
    asked = []

    def look(batch, stable):
        assert (np.diff(batch) > 0).all()
        assert (stable <= edge(batch)).all()
        asked.extend(batch.tolist())
        return edge(batch)

    edges = Edges(look, between)
    found = [edges(SIZES), edges(SIZES[::-1])[::-1]]
    np.testing.assert_array_equal(found[0], found[1])
    return found[0], asked


def test_smooth_edges_are_interpolated_and_each_is_looked_for_once():
    found, asked = looked_for(lambda batch: 2 * batch / (batch + 1), True)
    np.testing.assert_allclose(found, 2 * SIZES / (SIZES + 1), rtol=1e-10)
    assert len(set(asked)) == len(asked) == 3 * NODES + 2


def test_edges_with_a_kink_are_looked_for_one_by_one():
    found, _ = looked_for(lambda batch: np.minimum(batch, 5.0), True)
    np.testing.assert_allclose(found, np.minimum(SIZES, 5.0), rtol=1e-12)


def test_others_are_all_looked_for():
    _, asked = looked_for(lambda batch: 2 * batch / (batch + 1), False)
    assert asked == SIZES.tolist()
