"""Spectra in files: what is written is read, with σ² of the file, of the call or 1; every other file is named."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems import write_spectrum

PROBLEM = st.LeastSquares([1.0, 1 / 3, 1e-20], [0.1, 2.0, 0.0], 0.3)


@pytest.mark.parametrize(("name", "noise"), [("two.npz", 0.3), ("two.csv", 1.0)])
def test_what_is_written_is_read(tmp_path, name, noise):
    path = write_spectrum(PROBLEM, tmp_path / name)
    assert path == tmp_path / name
    found, other = st.read_spectrum(path), st.read_spectrum(str(path), noise_variance=0.0)
    for problem in (found, other):
        np.testing.assert_array_equal(problem.eigenvalues, PROBLEM.eigenvalues)
        np.testing.assert_array_equal(problem.signal, PROBLEM.signal)
    assert (found.noise_variance, other.noise_variance) == (noise, 0.0)


def test_columns_are_found_by_their_names(tmp_path):
    (tmp_path / "a.csv").write_text("signal, note , eigenvalues\n2,first,0.5\n3,,1\n")
    found = st.read_spectrum(tmp_path / "a.csv")
    np.testing.assert_array_equal(found.directions(), [[1.0, 0.5], [3.0, 2.0]])
    np.savez(tmp_path / "a.npz", eigenvalues=[1.0], signal=[2.0], other=[3.0])
    assert st.read_spectrum(tmp_path / "a.npz").noise_variance == 1.0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "eigenvalues,s\n1,2\n", "must hold eigenvalues and signal, got eigenvalues, s in .*give them these"),
        ("a.csv", "", "must hold eigenvalues and signal, got nothing in"),
        ("a.csv", "eigenvalues,signal\n1,two\n", "signal must be numbers, got another word"),
        ("a.csv", "eigenvalues,signal\n1\n", "signal must be finite and not negative, got nan"),
        ("a.npz", "no archive", r"must be a CSV or \.npz file"),
        ("a.csv", None, "must be a file that exists"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        st.read_spectrum(tmp_path / name)


def test_other_endings_are_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.npz or \.csv, got"):
        write_spectrum(PROBLEM, tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
