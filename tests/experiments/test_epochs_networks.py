"""The experiment on networks' passes, on made-up worths, and its protocol on runs that are known."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from experiments import epochs_networks as experiment
from experiments._lib import passes_verdicts as verdicts
from experiments._lib.critical_grid import Grid
from tests.figure_checks import check_figure

FULL = experiment.SCALES["full"]


def made_up(config, *, left=None, off=1.0, fall=0.2, fixed=60.0, spread=1.01):
    """Passes worth 1 + R (1 − exp(−(K − 1)/R)); the theory's E − 1 is `off` times that."""
    left = left or (lambda noise: 3.0 / noise**0.5)
    rows = []
    for arm, noise in product(config.arms, config.noises):
        worth = 1 + left(noise) * -np.expm1(-(np.array(config.passes) - 1) / left(noise))
        for passes, each in zip(config.passes, worth.tolist(), strict=True):
            rate = fall if passes == max(config.passes) else 1.0
            seen = ("measured", "N samples", passes, 8, rate, 0.1, each, each / spread, each * spread)
            rows.append(experiment.Row("worth", arm, noise, *seen))
            theory = ("N samples", passes, 8, rate, 0.1, 1 + off * (each - 1), np.nan, np.nan)
            for source in (verdicts.BEFORE, verdicts.AFTER, verdicts.EXPONENTS)[: 3 if arm == verdicts.NETWORK else 1]:
                rows.append(experiment.Row("worth", arm, noise, source, *theory))
    for order, last in (("N samples", fixed), ("fresh samples", 30.0)):
        for passes, size in zip(config.critical_passes, (20.0, last), strict=True):
            cells = (order, passes, size, np.nan, 0.1, np.nan, size / spread, size * spread)
            rows.append(experiment.Row("critical", verdicts.NETWORK, 1.0, "measured", *cells))
    return rows


def judged(rows):
    return {verdict.claim: verdict.verdict for verdict in experiment.verdicts_of(FULL, rows, 1.0)}


def test_all_hold_where_all_is_as_said():
    rows = made_up(FULL)
    found = judged(rows)
    assert set(found.values()) == {"holds"}
    assert len(found) == 4 + 2 + 8 + 2 + 1


@pytest.mark.slow
def test_the_figure_has_no_defects():
    check_figure(verdicts.figure(FULL, made_up(FULL)))


@pytest.mark.parametrize(
    ("changed", "claim", "number"),
    [
        ({"left": lambda noise: 1e3}, "four epochs are worth less", 4),
        ({"left": lambda noise: 3 * noise**0.5}, "noise lowers", 2),
        ({"off": 0.4}, "the theory predicts", 8),
        ({"fall": 1.0}, "the best γ falls", 2),
        ({"fixed": 15.0}, "B* grows faster", 1),
    ],
)
def test_each_claim_can_fail(changed, claim, number):
    found = judged(made_up(FULL, **changed))
    assert [name for name in found.values() if name == "fails"] == ["fails"] * number
    assert all(each.startswith(claim) for each, name in found.items() if name == "fails")


def test_wide_intervals_decide_nothing():
    found = judged(made_up(FULL, spread=3.0))
    assert set(found.values()) == {"inconclusive", "holds"}
    assert {claim for claim, name in found.items() if name == "holds"} == {
        f"the best γ falls with epochs: {arm}, σ² = 1" for arm in FULL.arms
    }
    unknown = [row._replace(low=np.nan) if row.kind == "critical" else row for row in made_up(FULL)]
    assert judged(unknown)["B* grows faster with epochs than with data: network, σ² = 1"] == "inconclusive"


def test_worth_is_found_again():
    """The worth of risks D^−½ is right between the tried data, below and beyond them; a rise by noise is pooled."""
    multiples = np.array([0.5, 1, 2, 4, 8])
    wanted = np.array([0.7, 1.0, 3.0, 7.9, 9.0, 0.1])
    found = experiment.worth_of(wanted**-0.5, multiples, multiples**-0.5)
    np.testing.assert_allclose(found, [0.7, 1.0, 3.0, 7.9, np.inf, 0.5])
    noisy = multiples**-0.5 * np.array([1, 1, 1.5, 1, 1])
    assert np.isfinite(experiment.worth_of(multiples**-0.5, multiples, noisy)).all()


def test_a_run_that_diverged_excludes_its_rate_in_every_resample():
    config = replace(FULL, num_seeds=3, num_resamples=20)
    risks = np.ones((1, 2, 3, 1))
    risks[0, 1, 2, 0] = np.inf
    found = experiment.resampled(config, risks)
    assert found.shape == (21, 1, 2, 1)
    assert np.isinf(found[:, 0, 1]).all()
    np.testing.assert_allclose(found[:, 0, 0], 1)


def test_the_theory_of_features_is_that_of_their_spectrum():
    """One pass is worth as many fresh samples, and a part that no feature reaches changes E, not its order."""
    import sgdtheory as st

    config = replace(FULL, num_rows=64, passes=(1, 4), fresh=tuple(2.0 ** (k / 2) for k in range(-2, 7)))
    rows = experiment._predicted(config, ("network", 1.0, verdicts.BEFORE), st.PowerLaw(1.5, 2.0, 16), 0.0)
    assert rows[0].worth == pytest.approx(1.0, rel=0.02)
    assert 1.2 < rows[1].worth < 3
    more = experiment._predicted(config, ("network", 1.0, verdicts.BEFORE), st.PowerLaw(1.5, 2.0, 16), 1.0)
    assert more[1].worth == pytest.approx(rows[1].worth, rel=0.02)


@pytest.mark.slow
def test_one_pass_is_fresh_data_and_the_next_is_not():
    """By the trainer; seeds have weights of their own, or share them."""
    config = replace(experiment.SCALES["quick"], num_rows=64)
    grid = Grid(np.array([8.0]), np.array([[0.1]]), np.array([64.0, 256.0]))
    runs = [
        experiment.network_risks(config.run("network", 1.0, rows), grid, 2, draw_weights=True) for rows in (64, None)
    ]
    np.testing.assert_allclose(runs[0][..., 0], runs[1][..., 0], rtol=1e-4)
    assert (np.abs(runs[0][..., 1] / runs[1][..., 1] - 1) > 1e-3).all()
    shared = experiment.network_risks(config.run("network", 1.0, 64), grid, 2)
    np.testing.assert_allclose(shared[:, :, 0], runs[0][:, :, 0], rtol=1e-6)
    assert abs(shared[0, 0, 1, 0] / runs[0][0, 0, 1, 0] - 1) > 1e-3
