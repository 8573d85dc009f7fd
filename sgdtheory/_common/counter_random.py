"""Random numbers as a pure function of (key, step, index): the same on any device, in any block, in any order.

Threefry-2x32 (Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011) is the generator
that JAX uses too. Here the counter is (step, index) itself, both output words are used, and the rounds are written
out, so that a compiler fuses them with what consumes the numbers: about twice as fast as `jax.random.normal` on a
CPU.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

Words = Any  # a pair of uint32 arrays

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = np.uint32(0x1BD11BDA)
WORDS = 64  # The first of the two output words serves a multiple of this many indices, so that vector loops stay whole.
CHI_SQUARE = 1 << 31  # From this index on, indices belong to the chi-square's attempts.
SERIES = 0.1  # Below this |y|, log(1 + y) minus its Taylor polynomial is summed as a series.


def threefry(key: Words, step: ArrayLike, index: ArrayLike) -> tuple[Array, Array]:
    """Two uint32 words for each (key, step, index); arrays broadcast.

    Args:
        key: pair of uint32 arrays.
        step, index: uint32 arrays, the two words of the counter.
    """
    schedule = key[0], key[1], key[0] ^ key[1] ^ PARITY
    x, y = step + schedule[0], index + schedule[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation)))
        x, y = x + schedule[(group + 1) % 3], y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def normals(key: Words, step: ArrayLike, count: int, dtype: DTypeLike) -> Array:
    """(count,) standard normals of one (key, step)."""
    if dtype == np.float64:  # a number takes both words
        return _normal(symmetric_uniform(threefry(key, step, jnp.arange(count, dtype=np.uint32)), dtype))
    half = min(count, -(-count // (2 * WORDS)) * WORDS)
    first, second = threefry(key, step, jnp.arange(half, dtype=np.uint32))
    words = jnp.concatenate([first, second[: count - half]]) if count > half else first
    return _normal(symmetric_uniform((words, words), dtype))


def symmetric_uniform(words: Words, dtype: DTypeLike) -> Array:
    """Uniform on the midpoints of 2^24 (float32) or 2^53 (float64) equal parts of (−1, 1): symmetric, never ±1."""
    if dtype == np.float64:
        bits = (words[0].astype(np.uint64) << np.uint64(32)) | words[1].astype(np.uint64)
        return ((bits.astype(np.int64) >> 11).astype(np.float64) + 0.5) * 2.0**-52
    return ((words[0].astype(np.int32) >> 8).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)


def _normal(uniform: Array) -> Array:
    return lax.erf_inv(uniform) * np.sqrt(2).astype(uniform.dtype)


def mean_chi_square(key: Words, step: ArrayLike, degrees: ArrayLike, dtype: DTypeLike) -> Array:
    """χ²_B / B, exact in law for B = 1 and every real B ≥ 2; key, step and degrees broadcast.

    Marsaglia & Tsang (ACM TOMS 26, 2000): with δ = B/2 − 1/3 and y = x/(3√δ), x ~ N(0, 1), the value 2δ(1 + y)³ is
    accepted with probability exp(3δ g(y)), g(y) = log(1 + y) − y + y²/2 − y³/3. Written so, nothing cancels, however
    large B is. More than 95% of attempts succeed; the k-th reads counters that are its own, so that a lane's number
    does not depend on how often other lanes try. For B = 1 the value is x².
    """
    key, step, degrees = (key[0], key[1]), jnp.asarray(step, np.uint32), jnp.asarray(degrees, dtype)
    delta = jnp.maximum(degrees / 2, 1) - 1 / 3
    shape = jnp.broadcast_shapes(key[0].shape, step.shape, degrees.shape)

    def attempt(number: Array):
        base = np.uint32(CHI_SQUARE) + 2 * number
        x = _normal(symmetric_uniform(threefry(key, step, base), dtype))
        uniform = (1 + symmetric_uniform(threefry(key, step, base + np.uint32(1)), dtype)) / 2
        y = x / (3 * jnp.sqrt(delta))
        inside = jnp.maximum(y, -0.999999)
        accepted = (y > -1) & (jnp.log(uniform) < 3 * delta * log_remainder(inside))
        value = jnp.where(degrees == 1, x**2, (1 - 2 / (3 * degrees)) * (1 + y) ** 3)
        return value, accepted | (degrees == 1)

    def again(carry: tuple[Array, Array, Array]):
        number, value, accepted = carry
        new, good = attempt(number)
        return number + np.uint32(1), jnp.where(accepted, value, new), accepted | good

    start = jnp.uint32(0), jnp.zeros(shape, dtype), jnp.zeros(shape, bool)
    return lax.while_loop(lambda carry: ~carry[2].all(), again, start)[1]


def log_remainder(y: Array) -> Array:
    """g(y) = log(1 + y) − y + y²/2 − y³/3 for y > −1, to rounding error near 0 too, where it is about −y⁴/4."""
    coefficients = [(-1.0) ** (k + 1) / k for k in range(19, 3, -1)]
    series = jnp.zeros_like(y)
    for coefficient in coefficients:
        series = series * y + coefficient
    direct = jnp.log1p(y) - y + y**2 / 2 - y**3 / 3
    return jnp.where(jnp.abs(y) < SERIES, series * y**4, direct)
