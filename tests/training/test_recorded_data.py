"""Samples of a data_seed, as they are in stores of runs: with others, runs of the same hash would not be the same."""

import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.training.streams import stream
from tests.runs import changed, run_of

TEACHER = run_of(batch_size=4)
CLOSE = {"rtol": 1e-4, "atol": 1e-4}  # sums of 256 hidden units round as the machine has it


def test_the_teachers_samples():
    data = stream(TEACHER)
    inputs, targets = data.holdout()
    np.testing.assert_allclose(inputs[0, :3], [-4.4228067, 8.05196, -4.714169], rtol=1e-5)
    np.testing.assert_allclose(targets[:4], [-1.5695354, 0.36450663, -1.2718856, 1.7490019], **CLOSE)
    inputs, labels = data.batch(jnp.uint32(0), data.chunk(0, 3, 1)[0])
    np.testing.assert_allclose(inputs[0, :3], [5.8132029, 0.88851988, -2.4435704], rtol=1e-5)
    np.testing.assert_allclose(labels, [1.422914, -1.631826, -0.5438547, -1.383297], **CLOSE)
    assert stream(changed(TEACHER, num_samples=30)).chunk(1, 0, 10).ravel()[-8:].tolist() == [
        7,
        22,
        23,
        2,
        14,
        17,
        6,
        16,
    ]


def test_the_order_of_digits():
    data = stream(run_of(data="digits", holdout_size=5))
    images, classes = data.holdout()
    assert images.sum((1, 2, 3)).tolist() == [21.5, 20.25, 16.0625, 17.3125, 24.5]
    assert classes.tolist() == [2, 8, 1, 1, 8]
    assert data.chunk(1, 0, 1)[0, :4].tolist() == [956, 532, 1206, 319]


def test_windows_of_a_file_of_tokens(tmp_path):
    np.arange(1000, dtype="<u2").tofile(tmp_path / "t.bin")
    text = {"model": "transformer", "data": "tokens", "tokens": f"{tmp_path / 't.bin'}", "vocabulary": 1000}
    data = stream(run_of(**text, context=4, batch_size=3, holdout_size=2))
    assert data.chunk(1, 0, 2)[:, :, 0].tolist() == [[93, 753, 577], [29, 573, 865]]


def test_a_token_outside_of_the_vocabulary_is_found_in_any_part_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("sgdtheory.training.text.CHECKED", 100)
    tokens = np.full(500, 9, "<u2")
    tokens[[320, 321]] = 10, 11
    tokens.tofile(tmp_path / "t.bin")
    text = {"model": "transformer", "data": "tokens", "tokens": f"{tmp_path / 't.bin'}", "context": 4}
    with pytest.raises(ValueError, match="has token 10 at index 320, outside of vocabulary = 10;"):
        stream(run_of(**text, vocabulary=10))
    stream(run_of(**text, vocabulary=12))


def test_classes_are_counted_from_0_up_to_a_limit(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((12, 3)))
    arrays = {"data": "arrays", "features": f"{tmp_path / 'X.npy'}", "targets": f"{tmp_path / 'y.npy'}"}
    for largest, outputs in ((1, 2), (2**20 - 1, 2**20), (2**20, None)):
        np.save(tmp_path / "y.npy", np.r_[np.ones(11, int), largest])
        if outputs:
            assert run_of(**arrays).data.samples.num_outputs == outputs
        else:
            with pytest.raises(ValueError, match="must hold classes 0, 1, … below 1048576, but has 1 … 1048576"):
                _ = run_of(**arrays).data.samples
