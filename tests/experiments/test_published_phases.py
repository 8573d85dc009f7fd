"""Compute-optimal sizes of random features: formulas, frontiers of made losses, signs with small signals, verdicts."""

import dataclasses

import numpy as np
import pytest

from experiments import published_phases as experiment
from experiments._lib import published_phases as phases
from experiments._lib import published_signs as signs
from experiments._lib.published_phases_figure import phases_figure
from experiments._lib.published_phases_verdicts import phase_verdicts
from experiments._lib.published_theory import SGD, SIGN, Row
from tests.figure_checks import check_figure

CONFIG = dataclasses.replace(experiment.Config(), phase_sizes=(3.0, 15.0), sign_sizes=((4.0, 12.0), (4.0, 12.0)))
SIZES = phases.sizes_of(*CONFIG.phase_sizes)


def test_published_exponents_balance_the_terms():
    """In every phase; with the noise of early steps left out those of phases III and IV do not."""
    random = np.random.default_rng(0)
    seen = set()
    for alpha, beta in zip(random.uniform(0.05, 1.5, 400), random.uniform(0.05, 2.0, 400), strict=True):
        if alpha + beta <= 0.52:
            continue
        name, powers = phases.phase_of(alpha, beta), phases.terms(alpha, beta)
        np.testing.assert_allclose(phases.balance(powers), phases.FORMULAS[name](alpha, beta), atol=1e-9)
        without = [each for each in powers if each != phases.noise_term(alpha)]
        apart = phases.balance(without).loss - phases.FORMULAS[name](alpha, beta).loss
        assert (apart < -1e-9) == (name in {"III", "IVa", "IVb"})
        seen.add(name)
    assert seen == set(phases.FORMULAS) - {"II/III"}


def test_points_lie_in_their_phases():
    for phase in (*phases.PHASES, *signs.POINTS):
        assert phase.name == "II/III" or phases.phase_of(phase.alpha, phase.beta) == phase.name


def made(question, method, phase, powers, sizes, draws=(None,), scatter=0.0, reach=8.0):
    """Losses d^p + n^q whose least ones have the given powers of f in d* and in L."""
    ratio = powers.loss / powers.size, powers.loss / (1 - powers.size)
    random = np.random.default_rng(0)
    rows = []
    for size in sizes:
        steps = 2.0 ** np.arange(-reach, reach + 0.1, 0.5) * size ** (1 / powers.size - 1)
        for draw in draws:
            losses = (size ** ratio[0] + steps ** ratio[1]) * np.exp(scatter * random.standard_normal())
            table = zip(steps.tolist(), losses.tolist(), strict=True)
            rows += [
                Row(question, method, *phase.pair, phases.case_of(size, draw), n, 1, 0.1, loss) for n, loss in table
            ]
    return rows


def test_the_frontier_of_made_losses():
    powers = phases.Exponents(0.4, -0.6)
    rows = made(phases.QUESTION, SGD, phases.PHASES[0], powers, SIZES)
    size, loss = phases.frontier(rows, 4).slopes()
    assert size.value == pytest.approx(0.4, abs=1e-3)
    assert loss.value == pytest.approx(-0.6, abs=1e-3)
    with pytest.raises(ValueError, match="at least three computes"):
        phases.frontier(rows[: len(rows) // 3], 4).slopes()
    assert phases.frontier([], 4).compute.size == 0


def made_signs(powers, sgd, scatter=1e-3):
    """Rows of signs with these powers, by point and method."""
    rows = []
    for phase in signs.POINTS:
        sizes = phases.sizes_of(4.0, 12.0)
        rows += made(signs.SIGNS, SGD, phase, sgd(phase), sizes)
        for method in (SIGN, signs.DECAYED):
            rows += made(signs.SIGNS, method, phase, powers(phase, method), sizes, range(3), scatter)
    return rows


def formula(phase):
    return phases.FORMULAS[phase.name](phase.alpha, phase.beta)


def judged(rows):
    return {each.claim: each.verdict for each in phase_verdicts(CONFIG, rows)}


def test_losses_that_have_the_published_exponents():
    rows = [row for phase in phases.PHASES for row in made(phases.QUESTION, SGD, phase, formula(phase), SIZES)]

    def powers(phase, method):
        size, loss = signs.noise_free(phase)
        return phases.Exponents(size, loss - 0.05 * (method == signs.DECAYED))

    found = judged(rows + made_signs(powers, formula))
    about = [claim for claim in found if claim.startswith(("compute-optimal", "control", "signSGD's"))]
    assert not [claim for claim in about if found[claim] == "fails"]
    # Constant slopes do not settle: their limits are known only as well as the fits of the minima agree.
    assert sum(found[claim] == "holds" for claim in about) >= len(about) - 1
    check_figure(phases_figure(CONFIG, rows))


def test_losses_that_do_not_have_them():
    """Negative control: other powers fail, and signs that are slower than SGD, with smaller models."""

    def wrong(phase):
        size, loss = formula(phase)
        return phases.Exponents(size - 0.1, loss - 0.1)

    rows = [row for phase in phases.PHASES for row in made(phases.QUESTION, SGD, phase, wrong(phase), SIZES)]
    rows += made_signs(lambda phase, _: phases.Exponents(formula(phase).size - 0.1, formula(phase).loss + 0.1), formula)
    found = judged(rows)
    failing = {claim for claim, verdict in found.items() if verdict == "fails"}
    assert {claim for claim in found if claim.startswith(("compute-optimal", "a decay"))} <= failing
    assert {claim for claim in found if claim.startswith("signSGD's loss")} <= failing


# ------------------------------------------------------------------ signs with small signals


def test_one_step_of_small_signals():
    """Steps of a few features, in any coordinates, by the whole matrix of second moments."""
    phase = signs.POINTS[0]
    problem, basis, gamma = phases.problem_of(phase, 6), signs.rotation(6, 1), 1e-3
    modes = signs.modes_of(problem, basis)
    eigenvalues, signal = problem.directions()
    covariance = (basis * eigenvalues) @ basis.T
    diagonal = np.diag(covariance)
    second = 2 / np.pi * np.arcsin(np.clip(covariance / np.sqrt(np.outer(diagonal, diagonal)), -1, 1))
    moments = (basis * (signal / eigenvalues)) @ basis.T  # E δδᵀ at the start.
    for _ in range(3):
        loss = np.trace(covariance @ moments) + problem.approximation_risk
        pull = 2 / np.pi * gamma / np.sqrt(loss) * covariance / np.sqrt(diagonal)[:, None]
        moments = moments - pull @ moments - moments @ pull.T + gamma**2 * second
    expected = np.trace(covariance @ moments) + problem.approximation_risk
    np.testing.assert_allclose(signs.losses(modes, np.array([gamma]), 3), expected, rtol=1e-9)
    np.testing.assert_allclose((modes.noise / modes.pull).sum(), np.sqrt(diagonal).sum())


def test_the_noise_after_many_steps():
    phase = signs.FLOORS[0]
    problem = phases.problem_of(phase, 16)
    modes = signs.modes_of(problem, signs.rotation(16, 0))
    found = signs.losses(modes, np.array([signs.FLOOR_RATE]), 1e6)
    expected = signs.floor_of(phase, 16).risk + problem.approximation_risk
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_signs_with_a_decay_end_lower():
    modes = signs.modes_of(phases.problem_of(signs.POINTS[0], 16), signs.rotation(16, 0))
    rates = np.array([0.05])
    assert signs.losses(modes, rates, 500, 0.5) < 0.7 * signs.losses(modes, rates, 500)
    ((rate, loss),) = signs.tuned(modes, [500.0], 0.3)
    near = signs.losses(modes, rate * np.array([0.8, 1.0, 1.25]), 500)
    assert near.argmin() == 1
    assert loss == pytest.approx(near[1], rel=1e-2)


@pytest.mark.slow
def test_small_signals_agree_with_the_library():
    assert signs.against_library(signs.POINTS[0], 16, 100.0).risk == pytest.approx(1, abs=0.05)
