"""The type of an argument that is one number or an array of numbers."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np


class _SupportsArray(Protocol):
    """An array of NumPy, JAX or pandas, or a scalar of NumPy."""

    def __array__(self) -> "np.ndarray[Any, Any]": ...


# Unlike NumPy's ArrayLike, this type has no strings, so that a type checker finds `batch_size="32"`.
ArrayLike: TypeAlias = (
    float
    | _SupportsArray
    | Sequence[float]
    | Sequence[_SupportsArray]
    | Sequence[Sequence[float]]
    | Sequence[Sequence[_SupportsArray]]
    | Sequence[Sequence[Sequence[float]]]
)
