"""Streams of rows: digits, and arrays of one's own."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.training import Arrays, train
from sgdtheory.training.array_files import array_files
from sgdtheory.training.streams import stream
from tests.runs import changed, run_of
from tests.training.test_streams import same, samples

DIGITS = run_of(model="conv", data="digits", width=4, base_width=4, batch_size=12, holdout_size=1024, averages=())


@pytest.fixture
def own(tmp_path):
    """Rows that hold their number, and a config of them."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 3))
    np.save(tmp_path / "X.npy", features)
    np.save(tmp_path / "y.npy", features @ [1.0, 2.0, 3.0])
    fields = {"data": "arrays", "features": f"{tmp_path / 'X.npy'}", "targets": f"{tmp_path / 'y.npy'}"}
    return run_of(**fields, width=8, base_width=8, batch_size=12, averages=()), features


@pytest.mark.slow
def test_samples_depend_on_the_seed_and_their_number_alone():
    whole = samples(DIGITS, 4)
    same(samples(changed(DIGITS, width=8, micro_batch=3), 4), whole)
    same(samples(changed(DIGITS, batch_size=6), 8), whole)
    same(samples(DIGITS, 2, first=2), [part[24:] for part in whole])
    assert not np.array_equal(samples(DIGITS, 4, seed=1)[0], whole[0])


def test_an_epoch_has_every_row_once_but_those_held_out(own):
    config, features = own
    held_out = stream(config).holdout()[0]
    assert len(held_out) == 12
    first, second = (samples(config, 4, first=4 * epoch)[0] for epoch in (0, 1))
    everything = np.concatenate([first, held_out])
    np.testing.assert_allclose(np.sort(everything, axis=0), np.sort(features, axis=0), rtol=1e-6)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(np.sort(first, axis=0), np.sort(second, axis=0))


def test_digits_are_what_they_are():
    images, classes = stream(DIGITS).holdout()
    assert images.shape == (359, 8, 8, 1)
    assert (images.min(), images.max()) == (0, 1)
    assert set(classes) == set(range(10))
    assert DIGITS.data.samples.num_outputs == 10
    flat = run_of(data="digits", width=8, base_width=8).network  # a perceptron takes images as vectors
    weights = {name: jnp.ones(tensor.shape) for name, tensor in flat.tensors.items()}
    assert flat.apply(weights, images)[0].shape == (359, 10)


def test_classes_and_several_targets(tmp_path):
    """The loss of constant outputs: log 3 for three classes; the mean square of all targets."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.standard_normal((40, 3)))
    np.save(tmp_path / "classes.npy", np.arange(40) % 3)
    np.save(tmp_path / "several.npy", np.full((40, 2), 2.0))
    for name, outputs, loss in ("classes", 3, np.log(3)), ("several", 2, 4.0):
        config = run_of(data="arrays", features=f"{tmp_path / 'X.npy'}", targets=f"{tmp_path / f'{name}.npy'}")
        assert config.data.samples.num_outputs == outputs
        inputs, targets = stream(config).holdout()
        weights = {key: jnp.zeros(tensor.shape) for key, tensor in config.network.tensors.items()}
        found = config.network.loss(config.network.apply(weights, inputs)[0], targets)
        np.testing.assert_allclose(found, loss, rtol=1e-6)


def test_training_on_arrays_lowers_the_loss(own):
    result = train(changed(own[0], max_steps=200, learning_rate=0.01))
    assert result.losses[-1, 0] < 0.2 * result.losses[0, 0]


@pytest.mark.parametrize(
    ("features", "targets", "message"),
    [
        (np.ones((40, 3)), np.ones(39), "one row a sample, got 40 and 39 rows"),
        (np.ones(40), np.ones(40), "must be (N, d), or (N, height, width, channels)"),
        (np.ones((40, 2, 2)), np.ones(40), "for images, got shape (40, 2, 2)"),
        (np.ones((40, 1, 1, 1, 1)), np.ones(40), "for images, got shape (40, 1, 1, 1, 1)"),
        (np.ones((40, 3)), np.ones((40, 2), int), "must be (N,) or (N, K) numbers"),
        (np.ones((40, 3)), -np.ones(40, int), "must hold classes 0, 1, …"),
        (np.ones((9, 3)), np.ones(9), "must have at least 10 rows, got 9"),
        (np.full((40, 3), np.nan), np.ones(40), "must be finite"),
        (np.array(["a"] * 40), np.ones(40), "must be one array of numbers"),
    ],
)
def test_bad_arrays(tmp_path, features, targets, message):
    paths = []
    for name, array in ("X", features), ("y", targets):
        np.save(tmp_path / f"{name}.npy", array)
        paths.append(f"{tmp_path / f'{name}.npy'}")
    with pytest.raises(ValueError, match=re.escape(message)):
        stream(run_of(data="arrays", features=paths[0], targets=paths[1]))


def test_images_and_vectors_are_mapped(tmp_path):
    for number, shape in enumerate([(10, 3), (10, 2, 2, 1)]):
        features, targets = np.random.default_rng(0).standard_normal(shape), np.arange(10.0)
        paths = [f"{tmp_path / f'{name}{number}.npy'}" for name in "Xy"]
        for path, array in zip(paths, (features, targets), strict=True):
            np.save(path, array)
        same(array_files(*paths), (features, targets))


def test_files_that_are_not_there_are_told_when_they_are_needed(tmp_path):
    config = run_of(data="arrays", features=f"{tmp_path}/X.npy", targets=f"{tmp_path}/y.npy")
    with pytest.raises(ValueError, match=r"X\.npy is not there"):
        stream(config)
    (tmp_path / "X.npy").write_bytes(b"no array")
    (tmp_path / "y.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match="is no NumPy array"):
        run_of(data="arrays", features=f"{tmp_path}/X.npy", targets=f"{tmp_path}/y.npy")
    with pytest.raises(ValueError, match="features must be the path"):
        Arrays(3, "y.npy")  # pyright: ignore[reportArgumentType]
