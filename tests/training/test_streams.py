"""Streams of data: the same samples for every width, batch size and split, and what they are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.training.streams import stream
from sgdtheory.training.text import Windows, _sources
from tests.runs import changed, run_of

TEACHER = run_of(input_dim=8, batch_size=12, holdout_size=16, noise_variance=0.3)
TEXT = run_of(model="transformer", data="stdlib", context=16, batch_size=12, holdout_size=20)
BOTH = pytest.mark.parametrize("config", [TEACHER, TEXT], ids=["teacher", "stdlib"])


def samples(config, steps, seed=0, first=0):
    data = stream(config)
    batch = jax.jit(data.batch)
    batches = [batch(jnp.uint32(seed), piece) for piece in data.chunk(seed, first, steps)]
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


def same(first, second):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def same_but_for_rounding(first, second):
    """The teacher's labels are a matrix product, which rounds as the size of the batch has it."""
    same(first[:1], second[:1])
    np.testing.assert_allclose(first[1], second[1], rtol=1e-5, atol=1e-5)


@BOTH
def test_samples_depend_on_the_seed_and_their_number_alone(config):
    whole = samples(config, 4)
    same(samples(changed(config, width=256, base_width=128, depth=1), 4), whole)
    same(samples(changed(config, micro_batch=3), 4), whole)
    same_but_for_rounding(samples(changed(config, batch_size=1), 12), [part[:12] for part in whole])
    same(samples(config, 2, first=2), [part[24:] for part in whole])
    assert len(whole[0]) == len(whole[1]) == 48
    assert not np.array_equal(samples(config, 4, seed=1)[0], whole[0])
    assert len(np.unique(whole[0], axis=0)) > 40


@BOTH
def test_holdout_is_fixed(config):
    first, second = stream(config).holdout(), stream(changed(config, batch_size=3)).holdout()
    same(first, second)
    assert len(first[0]) == config.holdout_size


def test_statistics_of_the_teacher():
    config = changed(TEACHER, batch_size=20_000)
    data = stream(config)
    inputs, labels = samples(config, 1)
    noise = labels - np.asarray(data(inputs))
    wide = 4 * np.sqrt(2 / 20_000)  # four standard deviations of a variance: false alarms of 6e-5 each
    assert abs(noise.var() / 0.3 - 1) < wide
    expected = np.arange(1, 9) ** -1.5
    expected *= 8 / expected.sum()
    assert (np.abs((inputs**2).mean(0) / expected - 1) < wide).all()
    correlation = np.corrcoef(np.c_[inputs, noise].T) - np.eye(9)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)  # 36 pairs, false alarms below 3e-5 together
    clean = np.asarray(data(inputs))
    assert abs(clean.mean()) < 0.05  # calibrated on 2^14 inputs: 4.5 standard deviations
    assert abs(clean.var() - 1) < 0.1
    held, targets = data.holdout()
    np.testing.assert_allclose(targets, data(held), rtol=1e-6)  # no noise
    assert not np.allclose(targets, stream(changed(config, task_seed=1)).holdout()[1])


def test_directions_contribute_to_the_teacher_by_a_power_law():
    """Of ⟨u_j, x⟩, whose standard deviation is 1.5: direction i has i^−b, here b = 3, of its variance.

    Means over 256 units: five standard deviations are 5 √(2/256), a false alarm of 6e-7 each.
    """
    config = changed(TEACHER, source=3.0)
    teacher = stream(config)
    found = (teacher._units**2).mean(1) * teacher.spectrum
    expected = np.arange(1, 9) ** -3.0
    assert (np.abs(found / (1.5**2 * expected / expected.sum()) - 1) < 5 * np.sqrt(2 / 256)).all()


PASSES = changed(TEACHER, num_samples=30)


def test_a_pass_over_the_teachers_samples_has_each_of_them_once():
    """The first as fresh ones come; then new orders, of every seed its own, labels' noise and all."""
    fresh = samples(TEACHER, 3)  # 36 samples
    found = samples(PASSES, 8)  # 96: three passes, and a batch with the end of one and the beginning of the next
    same_but_for_rounding([part[:30] for part in found], [part[:30] for part in fresh])
    passes = [[part[first : first + 30] for part in found] for first in (0, 30, 60)]
    for inputs, labels in passes[1:]:
        assert not np.array_equal(inputs, passes[0][0])
        place = [int(np.flatnonzero((passes[0][0] == row).all(1)).item()) for row in inputs]
        assert sorted(place) == list(range(30))
        np.testing.assert_allclose(labels, passes[0][1][place], rtol=1e-5, atol=1e-5)
    assert not np.array_equal(passes[1][0], passes[2][0])
    whole = stream(PASSES).chunk(0, 0, 8).ravel()
    np.testing.assert_array_equal(stream(changed(PASSES, batch_size=1)).chunk(0, 0, 96).ravel(), whole)
    np.testing.assert_array_equal(stream(PASSES).chunk(0, 3, 4).ravel(), whole[36:84])
    assert not np.array_equal(stream(PASSES).chunk(1, 0, 8).ravel()[30:], whole[30:])


def test_more_samples_than_the_teacher_is_asked_for_are_fresh_ones():
    """Nor do they take memory: no order of 2^40 samples is made."""
    same_but_for_rounding(samples(changed(TEACHER, num_samples=36), 3), samples(TEACHER, 3))
    same_but_for_rounding(samples(changed(TEACHER, num_samples=2**40), 3, first=5), samples(TEACHER, 3, first=5))


def test_targets_follow_their_tokens():
    inputs, targets = samples(TEXT, 3)
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])
    train, _ = _sources()
    text = train.tobytes()
    for row, target in zip(inputs[:5], targets[:5], strict=True):
        assert row.tobytes() + target[-1:].tobytes() in text


def test_holdout_files_are_no_training_files():
    train, holdout = (set(part.tobytes().split(b"\0")) for part in _sources())
    common = {text for text in train & holdout if len(text) > 200}  # short ones may be copies
    assert not common
    share = len(_sources()[1]) / len(_sources()[0])
    assert 0.01 < share < 0.12


def tokens_config(path, **changes):
    fields = {"model": "transformer", "data": "tokens", "vocabulary": 60_000, "context": 4, "batch_size": 1}
    return run_of(**fields, tokens=str(path), holdout_size=2, **changes)


def test_no_window_repeats_within_an_epoch(tmp_path):
    path = tmp_path / "tokens.bin"
    np.arange(1000, dtype="<u2").tofile(path)
    data = stream(tokens_config(path))
    windows = (950 - 1) // 4 - 1
    orders = []
    for epoch in range(2):
        tokens = data.chunk(0, epoch * windows, windows)[:, 0]
        assert tokens.shape == (windows, 5)
        np.testing.assert_array_equal(tokens, tokens[:, :1] + np.arange(5))
        predicted = tokens[:, 1:].ravel()
        assert len(np.unique(predicted)) == len(predicted) == 4 * windows
        assert predicted.max() < 950
        orders.append(tokens[:, 0].astype(int))
    assert not np.array_equal(*orders)
    held = np.concatenate(data.holdout(), axis=1)
    assert held.min() >= 950
    np.testing.assert_array_equal(held[:, 0], [950, 995])


@pytest.mark.parametrize("kind", ["bin", "u32.bin", "u2.npy", "u4.npy"])
def test_kinds_of_token_files(kind, tmp_path):
    path = tmp_path / f"tokens.{kind}"
    tokens = np.random.default_rng(0).integers(0, 60_000, 500)
    if kind.endswith("npy"):
        np.save(path, tokens.astype(kind[:2]))
    else:
        tokens.astype("<u4" if kind == "u32.bin" else "<u2").tofile(path)
    held = np.concatenate(stream(tokens_config(path)).holdout(), axis=1)
    np.testing.assert_array_equal(held[0], [*tokens[475:479], *tokens[476:480]])
    inputs, targets = samples(tokens_config(path), 7)
    rows = np.c_[inputs, targets[:, -1]].tolist()
    assert all(any(row == tokens[start : start + 5].tolist() for start in range(475)) for row in rows)


def test_the_shortest_texts_of_a_context():
    """The training part needs a window beside the offset, and the hold-out a single one."""
    train, holdout = np.arange(9), np.arange(5)
    data = Windows(4, 1, 1, (train, holdout), "a text")
    np.testing.assert_array_equal(np.concatenate(data.holdout(), axis=1), [[0, 1, 2, 3, 1, 2, 3, 4]])
    for texts, words in (
        ((train[:-1], holdout), "a text is too short for context = 4: its training part has 4 tokens"),
        ((train, holdout[:-1]), "its hold-out has 4 tokens"),
    ):
        with pytest.raises(ValueError, match=words):
            Windows(4, 1, 1, texts, "a text")


BAD = {
    "empty.bin": (b"", "is empty"),
    "odd.bin": (b"abc", "is no whole number of uint16 tokens"),
    "odd.u32.bin": (b"abcdef", "is no whole number of uint32 tokens"),
    "signed.npy": (np.zeros(99, np.int64), "uint16 or uint32, got 1 of int64"),
    "table.npy": (np.zeros((9, 9), np.uint16), "one dimension .* got 2 of uint16"),
    "text.txt": (b"abcd", "must end in .bin or .npy"),
    "short.bin": (bytes(16), "too short for context = 4: its"),
    "large.bin": (
        np.r_[np.zeros(123), 60_000, 60_001, np.zeros(99)].astype("<u2").tobytes(),
        "has token 60000 at index 123, outside of vocabulary = 60000",
    ),
    "junk.npy": (b"not an array at all", "tokens file .*junk.npy"),
    "none.bin": (None, "tokens must be the path of a file, got .*, which is not there"),
    "": (None, "tokens must be the path of a file, got .*, which is not there"),  # a folder
}


@pytest.mark.parametrize("name", BAD)
def test_bad_token_files(name, tmp_path):
    content, message = BAD[name]
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        np.save(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        stream(tokens_config(tmp_path / name))
