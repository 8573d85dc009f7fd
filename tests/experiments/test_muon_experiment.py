"""The experiment on Muon, on made-up risks whose B* is known."""

from itertools import product

import numpy as np
import pytest

from experiments import muon
from experiments._lib.several_outputs import ADAM, MUON, PUBLISHED, ROTATED_ADAM, ROTATED_SIGN, SGD, SIGN, Runs, least
from tests.figure_checks import check_figure

SCALES = pytest.mark.parametrize("scale", ["quick", "full"])
KNEES = {SGD: 20.0, SIGN: 300.0, ROTATED_SIGN: 30.0, ADAM: 90.0, ROTATED_ADAM: 40.0, MUON: 300.0, PUBLISHED: 150.0}


def risk(samples, batch, knee):
    """A power of D, and a loss at large batches."""
    return samples**-0.7 * (1 + batch / knee)


def made_up(config, knees, error=0.01):
    rows = []
    for pair, name, samples in product(config.exponents, config.methods, config.num_samples):
        sizes = muon._sizes(config, name, int(samples))
        for given, size in product((samples, 1.2 * samples), sizes):
            own = 0.0 if name == SGD else error
            rows.append(muon.Row(*pair, name, samples, given, size, 0.1, risk(given, size, knees[name]), own))
    return rows


def by_claim(config, rows):
    return {each.claim: each.verdict for each in muon._verdicts(config, rows, 0.0)}


@SCALES
def test_what_is_larger_is_found(scale):
    config = muon.SCALES[scale]
    rows = made_up(config, KNEES)
    found = by_claim(config, rows)
    assert set(found.values()) == {"holds"}
    assert len(found) == (7 if scale == "full" else 3)
    for figure in muon._figures(config, rows).values():
        check_figure(figure)


def test_what_is_not_larger_is_refused():
    """Negative controls: all alike, and Muon behind all others."""
    config = muon.SCALES["full"]
    assert set(by_claim(config, made_up(config, dict.fromkeys(KNEES, 100.0))).values()) == {"inconclusive"}
    behind = by_claim(config, made_up(config, KNEES | {MUON: 5.0, PUBLISHED: 5.0}))
    assert [verdict for claim, verdict in behind.items() if claim.startswith("Muon")] == ["fails"] * 6


def test_the_critical_batch_size_of_a_table():
    """The root of R(B, 1.2 D) = min R(B, D), to 3%: cubics between risks 4 times apart."""
    config = muon.SCALES["full"]
    rows = made_up(config, KNEES)
    for name, samples in product((SGD, MUON), config.num_samples):
        start = min(muon._sizes(config, name, int(samples)))
        for target, column in ((risk(samples, start, KNEES[name]), "own"), (risk(samples, 1, KNEES[SGD]), "common")):
            expected = KNEES[name] * (target / risk(1.2 * samples, 0.0, 1.0) - 1)
            found = getattr(muon.useful(rows, config.exponents[0], name, samples), column)
            assert found == pytest.approx(min(expected, samples // 2), rel=0.03)


def test_errors_of_risks_are_errors_of_batch_sizes():
    """d log B*/d log R by the made-up law; quantiles of 4000 draws to 10%."""
    config = muon.SCALES["full"]
    rows = made_up(config, KNEES, error=0.002)
    found = muon.useful(rows, config.exponents[0], MUON, 2048)
    slope = found.own / (KNEES[MUON] + found.own)  # d log R/d log B
    spread = np.log(found.draws).std() * slope / 0.002
    assert 1.0 < spread < np.sqrt(2) * 1.1  # the target's error, and that of one risk or of two about the root
    assert muon.useful(made_up(config, KNEES, error=0.0), config.exponents[0], MUON, 2048).draws.std() < 1e-9


def test_methods_have_draws_of_their_own():
    """|r| of 2000 independent draws is below 0.11 in all of 15 pairs (false alarm 2e-5); of shared ones it is 1."""
    config = muon.SCALES["full"]
    rows = made_up(config, KNEES, error=0.002)
    draws = [muon.useful(rows, config.exponents[0], name, 2048).draws for name in config.methods if name != SGD]
    correlation = np.corrcoef(np.log(draws))
    assert np.abs(correlation - np.eye(len(draws))).max() < 0.11


def test_a_ratio_with_the_largest_batch_tried_is_a_lower_bound():
    """SGD's risk at D = 512 is reached by 422 samples a step; only D/2 = 256 are tried, and B* is 84."""
    config = muon.SCALES["full"]
    table = muon.all_useful(config, made_up(config, KNEES | {SGD: 2.0, MUON: 600.0}))
    for each in muon.ratios(table, MUON, SGD, common=True):
        assert each.beyond == (each.samples == 512)
    assert not any(each.beyond for each in muon.ratios(table, MUON, SGD))


def test_the_largest_of_a_grid():
    batch = np.array([1.0, 4, 16])
    excess = np.array([[-1.0, -1, 1], [-1, 1, -1], [1, 1, 1], [-2, 2, 2], [0.5, -0.5, 0.5]])
    found = muon.largest(batch, excess)
    assert found[[1, 2]] == pytest.approx([16, 0])
    assert (found[[0, 3, 4]] > [4, 1, 4]).all()
    assert (found[[0, 3, 4]] < [16, 4, 16]).all()
    assert muon.largest(batch[:1], excess[:, :1]).tolist() == [1, 1, 0, 1, 0]


def test_risk_at_the_best_rate_is_not_chosen_for_its_noise():
    """Mean over 400 sets of runs: to 4 standard errors (false alarm 1e-4); the least of the means is too low."""
    random = np.random.default_rng(0)
    rate = 2.0 ** np.arange(8)
    found, chosen = [], []
    for _ in range(400):
        risks = 1 + 0.1 * random.standard_normal((8, 16))  # all γ alike: choosing is all noise
        found.append(least(Runs(rate, risks)))
        chosen.append(risks.mean(1).min())
    means = np.array([each.risk for each in found])
    assert abs(means.mean() - 1) < 4 * means.std() / 20
    assert np.mean(chosen) < 1 - 4 * means.std() / 20
    assert np.mean([each.error for each in found]) == pytest.approx(0.1 / 4, rel=0.1)
    assert rate[0] <= found[0].rate <= rate[-1]
