"""The files that the guides' commands read: the guides print numbers that were computed from just these."""

import io
import zlib

import numpy as np
import pytest

from sgdtheory.cli.example_files import example_files

FILES = example_files()
CHECKSUMS = {
    "runs/bs64.jsonl": 1897325878,
    "runs/bs256.jsonl": 1719865605,
    "runs/bs1024.jsonl": 3710819161,
    "run.log": 2722838562,
    "output/trainer_state.json": 216472785,
    "output/training_args.json": 1415659877,
    "run7.csv": 1896982015,
    "log.csv": 2413107042,
    "grid.csv": 3984991681,
    "run1.csv": 1882317200,
    "run2.csv": 926927807,
}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_the_text_is_that_of_the_guides(name):
    """Whoever changes a file runs the commands of the guides again, and writes its new checksum here."""
    assert zlib.crc32(FILES[name][0].encode()) == CHECKSUMS[name]


def test_every_text_has_a_checksum():
    assert {name for name in FILES if not name.endswith(".npy")} == CHECKSUMS.keys()


def test_features_are_those_of_the_guide():
    """To five digits: `tanh` and `sin` have other last digits on other machines."""
    features, targets = (np.load(io.BytesIO(FILES[name][0])) for name in ("X.npy", "y.npy"))
    assert (features.shape, targets.shape, features.dtype) == ((8000, 100), (8000,), np.float32)
    seen = [features.mean(dtype=float), features.std(dtype=float), targets.mean(dtype=float), targets.std(dtype=float)]
    assert seen == pytest.approx([-0.0001506905, 0.715942, -0.004681263, 0.8829296], rel=1e-5)
