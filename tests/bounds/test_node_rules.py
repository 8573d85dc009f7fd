"""Groups of directions between two systems of nodes, against the same spectrum direction by direction."""

import flint
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.bounds.ball_spectra import in_balls
from sgdtheory.bounds.balls import Undecided
from sgdtheory.bounds.enclosed_risk import Node, Run, stepped
from sgdtheory.bounds.node_rules import _cuts, checked_nodes, single_nodes, systems

LISTED = np.sort(np.random.default_rng(3).lognormal(-3, 1.5, 150))[::-1]
SPECTRA = {
    "power law": st.PowerLaw(1.3, 2.2, dim=150, noise_variance=0.5),
    "flat power law": st.PowerLaw(0.4, 1.2, dim=150, noise_variance=0.5),
    "list": st.LeastSquares(LISTED / LISTED[0], np.random.default_rng(4).exponential(size=150), 0.5),
    "zero eigenvalues": st.LeastSquares(np.append(LISTED[:140] / LISTED[0], np.zeros(10)), np.ones(150), 0.5),
    "no signal in the tail": st.LeastSquares(LISTED / LISTED[0], np.append(np.ones(12), np.zeros(138)), 0.5),
}


def run_of(batch=2, rate=0.05, steps=600, first=0):
    return Run(flint.arb(batch), flint.arb(rate), steps, first, flint.arb(0.5))


@pytest.mark.parametrize(("order", "first", "least"), [(1, 0, 2.0), (2, 200, 0.3), (4, 600, 1e-2), (4, 0, 1e-2)])
@pytest.mark.parametrize("name", SPECTRA)
def test_the_risk_lies_between_the_systems(name, order, first, least):
    spectrum = in_balls(SPECTRA[name])
    with flint.ctx.workprec(400):
        run = run_of(first=first)
        exact = stepped(single_nodes(spectrum, 150), run)
        low, high = (stepped(checked_nodes(nodes), run) for nodes in systems(spectrum, run, order))
        assert low < exact < high
        assert float((high / low - 1).mid()) < least


@pytest.mark.parametrize("name", SPECTRA)
def test_the_systems_hold_all_signal_and_all_squares(name):
    spectrum = in_balls(SPECTRA[name])
    with flint.ctx.workprec(400):
        for system in systems(spectrum, run_of(), 3):
            assert len(system) < 110
            for field, total in (
                ("signal", spectrum.sum(1, None, True, 0)),
                ("squares", spectrum.sum(1, None, False, 2)),
            ):
                assert float((sum(getattr(node, field) for node in system) / total - 1).mid()) == pytest.approx(
                    0, abs=1e-60
                )


def test_nodes_that_miss_a_moment_are_noticed():
    """Control: with 1% less of the squares of one node of the upper system the risk is no longer below it."""
    spectrum = in_balls(SPECTRA["power law"])
    with flint.ctx.workprec(400):
        run = run_of()
        exact = stepped(single_nodes(spectrum, 150), run)
        upper = systems(spectrum, run, 4).upper
        upper[5] = upper[5]._replace(squares=upper[5].squares * 99 / 100)
        assert not stepped(upper, run) > exact


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("capacity", [1.5, 6.0])
@pytest.mark.parametrize("dim", [1, 11, 12, 13, 20, 60, 5000, None])
@pytest.mark.parametrize(("rate", "steps"), [(0.1, 10), (1.9, 10), (1.9, 10**9), (1e-6, 1)])
def test_cuts(capacity, order, dim, rate, steps):
    """All directions are covered once; groups begin where γλ ≤ B/(B + 1) and are larger than their rules."""
    spectrum = in_balls(st.PowerLaw(capacity, 2.0, dim=dim))
    cuts = _cuts(spectrum, run_of(batch=3, rate=rate, steps=steps), order)
    assert cuts[-1] == (np.inf if dim is None else dim)
    assert all(after - before > 2 * order for before, after in zip(cuts, cuts[1:], strict=False))
    assert dim is None or dim > 12 or cuts == [dim]
    if len(cuts) > 1:
        assert rate * (cuts[0] + 1.0) ** -capacity <= 0.75
        assert cuts[0] == 12
        assert len(cuts) <= 2 + 1.2 * np.log(max(steps, 2) * rate + 1) / np.log(4)
        for first, last in zip(cuts, cuts[1:-1], strict=False):
            narrow = (first + 1.0) ** -capacity / last**-capacity <= 4.0
            assert narrow or last == first + 1 + 2 * order
            assert not narrow or (first + 1.0) ** -capacity / (last + 1.0) ** -capacity > 4.0
            assert steps * rate * (first + 1.0) ** -capacity > 0.5


def test_overshooting_directions_are_single():
    """1.2 · 19^−0.3 = 0.496 is the first below γλ = B/(B + 1); of a flatter spectrum none is: there are no groups."""
    spectrum = in_balls(st.PowerLaw(0.3, 1.5, dim=4000))
    assert _cuts(spectrum, run_of(batch=1, rate=1.2, steps=100), 2)[0] == 18
    spectrum = in_balls(st.PowerLaw(0.1, 1.5, dim=40))
    assert _cuts(spectrum, run_of(batch=1, rate=1.9, steps=100), 2) == [40]


def test_negative_weights_are_not_taken():
    for node in (Node(flint.arb(1), flint.arb(0, 1), flint.arb(1)), Node(flint.arb(1), flint.arb(1), flint.arb(0, 1))):
        with pytest.raises(Undecided, match="weights of a rule are not resolved"):
            checked_nodes([node])
