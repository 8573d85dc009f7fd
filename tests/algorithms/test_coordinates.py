"""Given coordinates: values that can be compared, and what is no rotation."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms.coordinates import Coordinates, random_rotation


def test_equal_entries_are_equal_coordinates():
    rows = random_rotation(4, (1, 2))
    one, same, other = (st.SignSGD(basis=each) for each in (rows, rows.copy(), rows[::-1]))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one.basis != "random"
    assert repr(one) == repr(same) != repr(other)
    assert repr(one).startswith("SignSGD(momentum=0.0, basis=Coordinates(4 × 4, ")
    assert not one.basis.rows.flags.writeable
    assert st.Adam(basis=rows).basis == one.basis


def test_a_rotation_is_uniform_and_orthogonal():
    """Entries of uniform rotations have variance 1/d; the mean of 400 · 9 of them within 5 standard errors."""
    drawn = np.array([random_rotation(3, (seed,)) for seed in range(400)])
    np.testing.assert_allclose(drawn @ drawn.swapaxes(1, 2), np.broadcast_to(np.eye(3), drawn.shape), atol=1e-12)
    assert np.abs(drawn.mean(0)).max() < 5 / np.sqrt(3 * 400)


@pytest.mark.parametrize(
    ("basis", "sentence"),
    [
        ("both", "basis must be one of 'eigenvectors', 'random', got 'both'; or a matrix"),
        (3.0, "orthogonal matrix, got 3.0"),
        (np.ones((2, 3)), "orthogonal matrix, got"),
        ([[1, 0], [0]], "orthogonal matrix, got"),
        (np.array([[1.0, 0.1], [0.0, 1.0]]), "basis must have orthonormal rows, got QQᵀ with entries 0.1 from"),
        (np.full((2, 2), np.nan), "basis must have orthonormal rows"),
    ],
)
def test_what_is_no_basis(basis, sentence):
    for make in (st.SignSGD, st.Adam):
        with pytest.raises(ValueError, match=sentence):
            make(basis=basis)


def test_coordinates_print_their_size():
    assert repr(Coordinates(np.eye(3))).startswith("Coordinates(3 × 3, ")
