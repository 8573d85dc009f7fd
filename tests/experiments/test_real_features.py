import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgdtheory as st
from experiments import real_features
from experiments._lib import critical_grid, feature_sets
from experiments._lib.critical_grid import Grid, critical, gaussian_risk, grid_around, tuned
from experiments._lib.feature_sets import Rows
from experiments._lib.real_figures import Row, figures
from tests.figure_checks import check_figure
from tests.marks import slow

CONFIG = real_features.Config(widths=(16, 32, 64), times=(0, 30), num_samples=(256, 4096))
SETS = "last 2 bytes", "digits, pixels", "transformer 16, 30 steps", "tangents 16, 30 steps"


def table(bias=1.0, drift=0.0):
    """Rows as the experiment makes them, B* observed over that predicted, and exponents that change with the width."""
    rng, rows = np.random.default_rng(0), []
    for number, name in enumerate(SETS):
        for samples in CONFIG.num_samples:
            size = (10 + 7 * number) * samples**0.2
            rows.append(Row("critical", name, 64, np.nan, 0, samples, size, size, size * bias, size * bias / 1.1,
                            size * bias * 1.1, size * bias, size, size / 1.2, size * 1.2, 1.0, 1.01, 1.0))  # fmt: skip
        for index in (1, 2, 4, 8, 16, 32):
            powers = {"eigenvalue": index**-1.5, "signal": index**-1.2}
            rows.append(Row("spectrum", name, 64, np.nan, 0, index, **powers, capacity=1.5, source=1.2, last=16))
    for width in CONFIG.widths:
        for steps in CONFIG.times:
            for seed in (0, 1):
                a, b = (value + drift * np.log2(width) + 0.02 * rng.standard_normal() for value in (1.5, 1.2))
                found = {"capacity": a, "capacity_reach": 0.05, "source": b, "source_reach": 0.05}
                rows.append(Row("exponents", "", width, steps, seed, 2048, predicted=20.0 + seed, **found))
    return rows


def test_what_agrees_holds():
    verdicts = real_features.verdicts_of(CONFIG, table())
    assert [each.verdict for each in verdicts] == ["holds"] * 6
    for figure in figures(CONFIG, table()).values():
        check_figure(figure, data=False)


def test_what_disagrees_fails():
    """Negative controls: B* a factor 1.7 off, exponents that change by 0.4 with each doubling of the width."""
    verdicts = real_features.verdicts_of(CONFIG, table(bias=1.7))
    assert [each.verdict for each in verdicts] == ["fails", "holds", "fails", "holds", "holds", "holds"]
    verdicts = real_features.verdicts_of(CONFIG, table(drift=0.4))
    assert [each.verdict for each in verdicts[3:]] == ["fails", "fails", "holds"]


@pytest.mark.parametrize(("capacity", "source"), [(2.0, 3.0), slow(1.5, 1.3)])
def test_b_star_on_the_grid_is_that_of_the_definition(capacity, source):
    index = np.arange(1.0, 49)
    problem, samples = st.LeastSquares(index**-capacity, index**-source, 1.0), np.array([500.0, 8000.0])
    exact = np.asarray(st.critical_batch_size(problem, num_samples=samples, curve=False).real_batch_size)
    grid = grid_around(problem, samples, exact, 8)
    found, optimal = critical(grid, tuned(grid, gaussian_risk(problem, grid)), samples, 0.2)
    np.testing.assert_allclose(found, exact, rtol=0.2)
    expected = st.critical_batch_size(problem, num_samples=samples, curve=False).optimal_risk
    np.testing.assert_allclose(optimal, expected, rtol=0.03)


def test_tuned_risk_is_a_parabola_only_where_the_risk_is_one():
    grid = Grid(np.array([1.0]), np.geomspace(1, 16, 5)[None], np.array([4.0]))
    x = np.log(grid.rate[0] / 3)
    smooth = np.exp(0.1 * x**2)[None, :, None]
    np.testing.assert_allclose(tuned(grid, smooth), [[1.0]], rtol=1e-12)
    diverging = smooth.copy()
    diverging[0, 3:] = np.inf
    np.testing.assert_allclose(tuned(grid, diverging), smooth[:, 2])
    diverging[0, 3:] = 1e20  # through which a parabola would dip below 0
    np.testing.assert_allclose(tuned(grid, diverging), smooth[:, 2])


def test_b_star_outside_of_the_grid_is_not_known():
    data = np.geomspace(16, 64, 9)
    grid = Grid(np.array([1.0, 2.0, 4.0]), np.ones((3, 1)), data)
    flat = 1 / grid.samples
    assert np.isnan(critical(grid, flat, np.array([16.0]), 0.2)[0]).all()
    rising = flat * (1 + 0.15 * np.array([[0], [1], [3]]))
    assert 2 < critical(grid, rising, np.array([16.0]), 0.2)[0][0] < 4
    noisy = rising * np.array([[1.0], [1.1], [0.9]])  # data that fall with B are pooled, not believed
    assert critical_grid._largest(np.log(grid.batch), np.array([-0.1, 0.2, 0.1])) == pytest.approx(2 ** (1 / 3))
    assert np.isfinite(noisy).all()


def test_noise_is_permuted_and_the_fit_kept():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 3))
    y = x @ rng.standard_normal((3, 2)) + x[:, :1] ** 2 * rng.standard_normal((400, 2))
    x, y = x - x.mean(0), y - y.mean(0)
    permuted = real_features._permuted(Rows(x, y)).targets
    fit, again = (np.linalg.lstsq(x, each, rcond=None)[0] for each in (y, permuted))
    np.testing.assert_allclose(again, fit, atol=1e-12)
    np.testing.assert_allclose(((permuted - x @ fit) ** 2).mean(0), ((y - x @ fit) ** 2).mean(0), rtol=1e-12)
    before, after = (np.corrcoef(x[:, 0] ** 2, (each - x @ fit)[:, 0] ** 2)[0, 1] for each in (y, permuted))
    assert before > 0.5 > abs(after) * 2


def test_text_features():
    text = feature_sets.text(8)
    assert text.tokens.shape == (8, 32)
    features = feature_sets.byte_features(text.tokens, 2, 5)
    assert features.shape == (8 * 16, 5)
    assert text.targets.shape == (8 * 16, feature_sets.CLASSES)
    pairs = np.stack([text.tokens[:, 16:].ravel(), text.tokens[:, 15:31].ravel()], axis=1)
    same = (pairs[:, None] == pairs).all(-1)
    np.testing.assert_array_equal(same, (features[:, None] == features).all(-1))  # of the last two bytes, no others


def test_digits_need_scikit_learn(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(feature_sets.importlib, "import_module", missing)
    assert feature_sets.digits(None) is None
    assert real_features._item(CONFIG, ("digits", 0, 0)) == []


@pytest.mark.slow
def test_tangents_are_the_neural_tangent_kernel():
    """Against products of whole gradients, which d random projections meet to 1/√d."""
    width, text = 8, feature_sets.text(4)
    weights = feature_sets.trained(width, (0,))[0]
    found = feature_sets.tangents(width, weights, text, 4096).features
    config = feature_sets.transformer(width, optimizer="sgd", holdout_size=1)
    scales = feature_sets.tensor_factors(config.network.tensors, config)
    direction = jax.random.normal(jax.random.key(0), (256,)) / 16
    gradients = []
    for tokens in text.tokens:
        for place in range(16, 32, 4):
            output = lambda w, t=tokens, p=place: config.network.apply(w, jnp.asarray(t[None]))[0][0, p] @ direction  # noqa: E731
            slope = jax.grad(output)(weights)
            gradients.append(
                np.concatenate([np.ravel(slope[n]) * scales[n].sgd_rate ** 0.5 * scales[n].multiplier for n in weights])
            )
    kernel = np.array(gradients) @ np.array(gradients).T
    np.testing.assert_allclose(found @ found.T, kernel, atol=0.1 * np.diag(kernel).max())


@pytest.mark.slow
def test_gaussian_rows_meet_the_theory():
    """The whole measurement where the theory's assumptions hold; noise that grows with x is noticed."""
    rng, index = np.random.default_rng(0), np.arange(1.0, 17)
    x = rng.standard_normal((20_000, 16)) * index**-0.75
    signal = x @ index**0.1
    config = real_features.Config(num_samples=(128, 512), permuted_samples=128, sampled=512, num_replicas=64)
    noise = rng.standard_normal(len(x))
    rows = real_features._measured(config, real_features._centred("", np.nan, Rows(x, (signal + noise)[:, None])))
    assert {row.kind for row in rows} == {"critical", "spectrum"}
    for row in rows[:2]:
        assert 0.8 < row.gaussian / row.measured < 1.25
        assert row.risk == pytest.approx(1.0, abs=0.1)
