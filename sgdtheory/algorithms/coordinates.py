"""Coordinates of coordinate-wise methods: eigenvectors of the covariance, a random rotation of them, or given ones."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from sgdtheory.algorithms.parameter import Choice, Parameter

ORTHOGONAL = 1e-6  # An entry of QQᵀ may deviate from the identity by this much.
BASES = "eigenvectors", "random"


@dataclass(frozen=True, eq=False, repr=False)
class Coordinates:
    """An orthonormal basis, hashable and compared by its entries.

    Args:
        rows: (d, d) orthogonal Q, whose entry j, i is the component of eigenvector i along coordinate j.

    Raises:
        ValueError: if Q is not a square matrix of orthonormal rows.
    """

    rows: np.ndarray

    def __post_init__(self) -> None:
        try:
            rows = np.array(self.rows, dtype=float)
        except (TypeError, ValueError):
            rows = np.zeros((0, 0))
        if rows.ndim != 2 or len(set(rows.shape)) > 1 or not rows.size:
            raise ValueError(
                f"basis must be one of {', '.join(map(repr, BASES))}, or a d × d orthogonal matrix, got {self.rows!r}"
            )
        away = np.abs(rows @ rows.T - np.eye(len(rows))).max()
        if not away < ORTHOGONAL:
            raise ValueError(f"basis must have orthonormal rows, got QQᵀ with entries {away:.2g} from the identity's")
        rows.flags.writeable = False
        object.__setattr__(self, "rows", rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coordinates) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return zlib.crc32(self.rows.tobytes())

    def __repr__(self) -> str:
        return f"Coordinates({len(self.rows)} × {len(self.rows)}, {hash(self):08x})"


Basis = Literal["eigenvectors", "random"] | Coordinates
BasisField = Annotated[
    Any,  # A Basis; a matrix is converted to Coordinates.
    Parameter(
        "coordinates of its steps: eigenvectors of the covariance, or a random rotation of them.",
        choice=Choice("coordinates", BASES),
    ),
]


def checked_basis(value: Any) -> Basis:
    """Return one of `BASES`, or the coordinates of a matrix.

    Raises:
        ValueError: if the value is neither.
    """
    if isinstance(value, str) and value not in BASES:
        raise ValueError(f"basis must be one of {', '.join(map(repr, BASES))}, got {value!r}; or a matrix")
    return value if isinstance(value, str | Coordinates) else Coordinates(value)  # pyright: ignore[reportReturnType]


def random_rotation(dim: int, seed: Sequence[int]) -> np.ndarray:
    """Draw a (d, d) orthogonal matrix from the uniform distribution, determined by the seed (Mezzadri 2007)."""
    q, r = np.linalg.qr(np.random.default_rng(list(seed)).standard_normal((dim, dim)))
    return q * np.sign(np.diag(r))


def rotation(basis: Basis, dim: int, seed: Sequence[int]) -> np.ndarray | None:
    """Return (d, d) Q of a basis, drawn from the seed if it is random; None for the identity.

    Raises:
        ValueError: if given coordinates have another dimension.
    """
    if isinstance(basis, str):
        return random_rotation(dim, seed) if basis == "random" else None
    if len(basis.rows) != dim:
        raise ValueError(f"basis must have one row for each of the problem's {dim} directions, got {len(basis.rows)}")
    return basis.rows
