"""`sgdtheory noise-scale`: columns of a log go where they belong; the numbers are tested with the fit."""

import numpy as np
import pytest

import sgdtheory as st
from tests.cli.text import cells

SIZES = ["--small-batch", 4, "--large-batch", 32]


@pytest.fixture
def norms():
    """(small, large) of 100 rows: ‖G‖² = 2, tr Σ = 30, and noise."""
    draw = np.random.default_rng(0).standard_normal((2, 100)) / 10
    return 2 + 30 / 4 + draw[0], 2 + 30 / 32 + draw[1]


@pytest.fixture
def log(tmp_path, norms):
    """One norm was not logged at one step, the other at two."""
    path = tmp_path / "log.csv"
    rows = [f"{10 * row},{small!r},{large!r},1.0" for row, (small, large) in enumerate(np.transpose(norms).tolist())]
    rows[3] = "30,,2.9,1.0"
    rows[7:9] = ["70,9.5,,1.0", "80,9.5,,1.0"]
    path.write_text("\n".join(["step,small_norm,large_norm,loss", *rows]) + "\n")
    return path


def fitted(norms):
    kept = np.setdiff1d(np.arange(100), [3, 7, 8])
    return st.fit_noise_scale(*(each[kept] for each in norms), small_batch=4, large_batch=32, steps=10 * kept)


def test_json(run, log, norms):
    found, expected = run.json("noise-scale", log, *SIZES, "--level", 0.9), fitted(norms)
    assert (found["noise_scale"], *found["interval"]) == (expected.noise_scale, *expected.interval(0.9))
    assert (found["rows"], found["left_out"], found["drift"]) == (97, 3, expected.drift)
    assert found["path"]["steps"] == expected.path(3).steps.tolist()
    assert found["path"]["high"] == expected.path(3, 0.9).high.tolist()
    assert found["notes"] == ["3 rows have a norm that is missing or not finite: left out"]


def test_table(run, log, norms):
    out, expected = run("noise-scale", log, *SIZES), fitted(norms)
    low, high = expected.interval()
    assert f"{expected.noise_scale:.4g} ({low:.4g} … {high:.4g}), 97 rows" in out
    first = f"{expected.path(3).steps[0]:.0f}"
    assert cells(out, first)[1] == f"{expected.path(3).noise_scale[0]:.4g}"
    assert f"p = {expected.drift:.2g}" in out


def test_norms_that_are_not_squared(run, tmp_path, norms):
    path = tmp_path / "roots.csv"
    rows = [f"{row},{a!r},{b!r}" for row, (a, b) in enumerate(np.sqrt(np.transpose(norms)).tolist())]
    path.write_text("\n".join(["step,micro,grad_norm", *rows]) + "\n")
    columns = ["--small-norms", "micro", "--large-norms", "grad_norm", "--unsquared"]
    found = run.json("noise-scale", path, *SIZES, *columns)
    assert found["noise_scale"] == pytest.approx(
        st.fit_noise_scale(*norms, small_batch=4, large_batch=32).noise_scale, rel=1e-9
    )
