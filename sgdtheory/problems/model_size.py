"""Training on M features instead of all directions (THEORY.md T31): kinds of features, and limits on their number.

With x Gaussian, y given the features is linear in them with Gaussian noise. Training on features is therefore the same
kind of problem, with label noise `σ² + approximation_risk`. Its risks are relative to the best predictor on the
features; relative to the best predictor on all directions they are larger by the constant `approximation_risk`.
"""

from typing import Literal

from sgdtheory._common.arguments import checked_name, whole_number

Kind = Literal["first", "gaussian"]
LARGEST_SAMPLED = 8192  # A sampled sketch has at most this many features: it takes M² numbers and M³ operations.
LARGEST_EQUIVALENT = 100_000


def checked_model(num_features: object, kind: object, seed: object, dim: int | None) -> int:
    """Return `num_features` as a whole number that the kind of features allows.

    Raises:
        ValueError: if it is below 1, above the number of directions, or too large to compute; or if the kind or the
            seed is invalid.
    """
    size = whole_number("num_features", num_features, 1)
    if dim is not None and size > dim:
        raise ValueError(f"num_features must be at most the number of directions, {dim}, got {size}")
    if checked_name("kind", kind, ("first", "gaussian")) == "gaussian":
        largest = LARGEST_EQUIVALENT if seed is None else LARGEST_SAMPLED
        if size > largest:
            remedy = (
                "give no seed for the spectrum that sketches tend to" if seed is not None else "take the first ones"
            )
            raise ValueError(f"num_features must be at most {largest} for this kind, got {size}; {remedy}")
        if seed is not None:
            whole_number("seed", seed, 0)
    return size
