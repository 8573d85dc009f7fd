import jax
import jax.extend
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from sgdtheory._common.counter_random import log_remainder, mean_chi_square, normals, symmetric_uniform, threefry
from tests.simulation.statistical import FALSE_ALARM, largest_correlation, normal_limit, one_sample_p, standard_score

DTYPES = [np.float32, np.float64]
KEY = np.uint32(0x12345678), np.uint32(0x9ABCDEF0)
STEPS = np.arange(40_000, dtype=np.uint32)


def precision(dtype):
    return jax.enable_x64(dtype == np.float64)


def many_normals(count, dtype, num_steps, key=KEY):
    with precision(dtype):
        steps = np.arange(num_steps, dtype=np.uint32)
        values = np.asarray(jax.jit(jax.vmap(lambda step: normals(key, step, count, dtype)))(steps))
    assert values.dtype == dtype
    return values.astype(float)


compiled_chi_square = jax.jit(mean_chi_square, static_argnums=3)


def chi_squares(batch, dtype, steps=STEPS, key=KEY):
    with precision(dtype):
        values = np.asarray(compiled_chi_square(key, steps, np.array(batch, dtype), dtype))
    assert values.dtype == dtype
    return values.astype(float)


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_known_answers(key, counter, words):
    """The vectors that are published with Random123."""
    found = threefry(tuple(np.array([k], np.uint32) for k in key), *(np.array([c], np.uint32) for c in counter))
    assert tuple(int(word[0]) for word in found) == words


def test_threefry_is_that_of_jax_bit_for_bit():
    key = np.random.default_rng(0).integers(0, 2**32, (2, 5000), dtype=np.uint32)
    counter = np.random.default_rng(1).integers(0, 2**32, (2, 5000), dtype=np.uint32)
    np.testing.assert_array_equal(
        threefry(tuple(jnp.asarray(key)), *counter), jax.extend.random.threefry2x32_p.bind(*key, *counter)
    )


def test_threefry_broadcasts():
    rows, columns = np.arange(3, dtype=np.uint32)[:, None], np.arange(5, dtype=np.uint32)
    table = threefry(KEY, rows, columns)
    assert table[0].shape == table[1].shape == (3, 5)
    assert int(table[0][2, 4]) == int(threefry(KEY, np.array([2], np.uint32), np.array([4], np.uint32))[0][0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 65, 200])
def test_normals_are_normal_and_those_of_a_step_uncorrelated_and_so_are_their_squares(count, dtype):
    """False-alarm rate 1e-4 for the two together: twice as many pairs."""
    values = many_normals(count, dtype, 50_000 if count == 1 else 5000)
    assert values.shape[1] == count
    some = values[: 50_000 // count]
    assert one_sample_p(some, stats.norm) > FALSE_ALARM
    assert one_sample_p(some, stats.norm(scale=1.1)) < 1e-10  # negative control
    if count == 1:
        return
    for numbers in (values, np.minimum(values**2, 9)):
        largest, pairs = largest_correlation(numbers)
        assert largest < normal_limit(2 * pairs)
    doubled = np.where(np.arange(count) == count - 1, values[:, [0]], values)  # negative control: a word used twice
    assert largest_correlation(doubled)[0] > 10


def test_words_of_float32_normals():
    """Both words of a counter are numbers: the first words of all counters, then the second ones."""
    half = 128  # 2 · 64 words serve up to 256 numbers
    words = np.concatenate(threefry(KEY, np.uint32(7), np.arange(half, dtype=np.uint32)))
    expected = stats.norm.ppf(((words.astype(np.int32) >> 8) + 0.5) / 2.0**24 + 0.5)
    np.testing.assert_allclose(normals(KEY, np.uint32(7), 200, np.float32), expected[:200], rtol=2e-6, atol=1e-6)


def test_words_of_float64_normals():
    """A number takes both words of its counter: 53 bits."""
    first, second = threefry(KEY, np.uint32(7), np.arange(200, dtype=np.uint32))
    bits = (np.asarray(first).astype(np.uint64) << np.uint64(32)) | np.asarray(second).astype(np.uint64)
    expected = stats.norm.ppf(((bits.astype(np.int64) >> 11) + 0.5) / 2.0**53 + 0.5)
    with precision(np.float64):
        np.testing.assert_allclose(normals(KEY, np.uint32(7), 200, np.float64), expected, rtol=1e-12, atol=1e-14)


def test_different_keys_steps_and_uses_are_uncorrelated():
    first = many_normals(1, np.float32, 40_001)[:, 0]
    second = many_normals(1, np.float32, 40_000, key=(KEY[0] + np.uint32(1), KEY[1]))[:, 0]
    third = many_normals(1, np.float32, 40_000, key=(KEY[0], KEY[1] + np.uint32(1)))[:, 0]
    chi = chi_squares(3, np.float32)
    other = chi_squares(3, np.float32, key=(KEY[0] + np.uint32(1), KEY[1]))
    largest, pairs = largest_correlation(
        np.stack([first[:-1], first[1:], second, third, chi, other, first[:-1] ** 2], 1)
    )
    assert largest < normal_limit(pairs)
    assert largest_correlation(np.stack([chi[:-1], chi[1:]], 1))[0] < normal_limit(1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniforms_are_symmetric_and_inside_the_interval(dtype):
    words = np.random.default_rng(0).integers(0, 2**32, (2, 20_000), dtype=np.uint32)
    words[:, :2] = 0, 2**32 - 1
    words[:, 2:4] = [[2**31, 2**31 - 1], [0, 2**32 - 1]]
    with precision(dtype):
        values = np.asarray(symmetric_uniform((jnp.asarray(words[0]), jnp.asarray(words[1])), dtype))
        mirrored = np.asarray(symmetric_uniform((jnp.asarray(~words[0]), jnp.asarray(~words[1])), dtype))
        extreme = np.asarray(jax.lax.erf_inv(jnp.array([values.min(), values.max()], dtype)))
    assert values.dtype == dtype
    assert np.abs(values).max() < 1
    assert np.abs(values).min() > 0
    assert np.isfinite(extreme).all()
    np.testing.assert_array_equal(values, -mirrored)
    assert one_sample_p(values[4:], stats.uniform(-1, 2)) > FALSE_ALARM


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 2, 3, 4.5, 64])
def test_chi_square_has_its_law(batch, dtype):
    values = chi_squares(batch, dtype)
    assert np.isfinite(values).all()
    assert values.min() >= 0
    assert one_sample_p(values * batch, stats.chi2(batch)) > FALSE_ALARM
    if 1 < batch < 100:  # negative control
        assert one_sample_p(values * batch, stats.chi2(batch - 1)) < 1e-10


@pytest.mark.parametrize("dtype", DTYPES)
def test_chi_square_of_a_huge_batch_has_its_mean_and_variance(dtype):
    """False-alarm rate 1e-4 over the two; the variance of N draws has relative error √(2/N)."""
    batch = 1e9
    values = chi_squares(batch, dtype)
    scaled = (values - 1) * np.sqrt(batch / 2)
    assert abs(standard_score(scaled, 0.0)) < normal_limit(2)
    assert abs(scaled.var() - 1) / np.sqrt(2 / scaled.size) < normal_limit(2)
    assert abs(standard_score(scaled, 0.05)) > 6  # negative control


@pytest.mark.parametrize("batch", [1, 3, 1e5])
def test_a_chi_square_does_not_depend_on_its_neighbours(batch):
    together = chi_squares(batch, np.float32, STEPS[:2000])
    backwards = chi_squares(batch, np.float32, STEPS[:2000][::-1])[::-1]
    alone = [chi_squares(batch, np.float32, STEPS[place : place + 1])[0] for place in (0, 7, 1999)]
    np.testing.assert_allclose(backwards, together, rtol=1e-6)
    np.testing.assert_allclose(together[[0, 7, 1999]], alone, rtol=1e-6)


def test_chi_square_broadcasts_keys_steps_and_degrees():
    words = np.random.default_rng(0).integers(0, 2**32, (2, 3), dtype=np.uint32)
    batches = np.array([1.0, 5.0, 1000.0], np.float32)
    table = np.asarray(mean_chi_square(tuple(words), STEPS[:4, None], batches, np.float32))
    assert table.shape == (4, 3)
    for lane in range(3):
        alone = chi_squares(batches[lane], np.float32, STEPS[:4], key=tuple(words[:, lane]))
        np.testing.assert_allclose(table[:, lane], alone, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_remainder_against_50_digits(dtype):
    """Absolutely to a few roundings of its largest term, relatively next to 0, where all terms cancel."""
    points = [-0.998, -0.9, -0.5, -0.11, -0.0999, -1e-2, -1e-4, -1e-8]
    points += [1e-8, 1e-4, 1e-3, 0.05, 0.0999, 0.11, 0.5, 2, 9.99]
    with precision(dtype):
        y = np.array(points, dtype)
        found = np.asarray(log_remainder(jnp.asarray(y))).astype(float)
    with mpmath.workdps(50):
        exact = [mpmath.log1p(v) - v + v**2 / 2 - v**3 / 3 for v in map(mpmath.mpf, y.astype(float).tolist())]
        error = np.array([float(f - e) for f, e in zip(found.tolist(), exact, strict=True)])
    rounding, size = np.finfo(dtype).eps, np.array([float(e) for e in exact])
    y = y.astype(float)
    assert (np.abs(error) <= 4 * rounding * np.maximum.reduce([np.abs(y), np.abs(y) ** 3, np.abs(size)])).all()
    near = np.abs(y) < 0.1
    assert (np.abs(error[near]) <= 8 * rounding * np.abs(size[near])).all()


def test_log_remainder_at_zero():
    assert float(log_remainder(jnp.zeros(()))) == 0
