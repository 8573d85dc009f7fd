"""One step of the moments against T20 written out with whole matrices, mode by mode."""

import numpy as np
import pytest

from sgdtheory.problems import Modes
from sgdtheory.risk.systems.moments import Moments, Steps
from sgdtheory.risk.systems.one_step import nested, stacked, step, step_maps

SETTINGS, MODES = 3, 4


def case(k, zeros=False, trained=False, noises=0):
    rng = np.random.default_rng(k)
    b, c = rng.normal(size=(2, SETTINGS, k, *([noises] if noises else [])))
    decay = rng.uniform(0, 1, (SETTINGS, k, k))
    if zeros:
        b[:, 0] = c[:, -1] = decay[:, 0, -1] = 0.0
    batch, forgetting, weight = rng.uniform(0.1, 1, (3, SETTINGS))
    root = rng.normal(size=(2, SETTINGS, k, k, MODES))
    own = np.einsum("psijm,psljm->psilm", root, root)
    moments = Moments(own, rng.normal(size=(2, SETTINGS, k, MODES)), rng.uniform(size=(2, SETTINGS)))
    weights = rng.uniform(0.5, 3, (3, MODES))
    modes = Modes(weights[0], weights[1], np.ones(MODES), weights[2] if trained else None)
    return Steps(decay, b, c, batch, forgetting, weight), moments, modes, tuple(rng.normal(size=k))


def written_out(steps, moments, modes, output):
    """T20; of several noises b and c have a column each."""
    own, cross, square = (each.copy() for each in moments)
    o = np.array(output)
    k = o.size
    for p, s in np.ndindex(2, SETTINGS):
        b, c = (each[s].reshape(k, -1) for each in (steps.b, steps.c))
        rho, omega = 1 - steps.forgetting[s], steps.weight[s]
        M, x = moments.own[p, s], moments.cross[p, s]
        seen = np.einsum("ir,jr,ijm->m", c, c, M)
        loss = seen if modes.trained is None else modes.trained * seen
        driven = seen + modes.multiplicity * (loss.sum() + p)
        square[p, s] = rho**2 * square[p, s] + 2 * rho * omega * (o @ x).sum()
        for m, eigenvalue in enumerate(modes.eigenvalue):
            A = np.eye(k) - steps.decay[s] - eigenvalue * b @ c.T
            own[p, s, :, :, m] = A @ M[..., m] @ A.T + eigenvalue**2 / steps.batch[s] * driven[m] * b @ b.T
            cross[p, s, :, m] = A @ (rho * x[:, m] + omega * M[..., m] @ o)
            square[p, s] += omega**2 * o @ M[..., m] @ o
    return Moments(own, cross, square)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("k", "options"), [(1, {}), (2, {}), (3, {}), (2, {"zeros": True}), (2, {"trained": True}), (2, {"noises": 2})]
)
def test_a_step_is_that_of_t20(k, options, compiled):
    steps, moments, modes, output = case(k, **options)
    maps = step_maps(steps, modes.eigenvalue, compiled)
    found = stacked(step(nested(moments), maps, modes, output, averaged=True))
    for value, expected in zip(found, written_out(steps, moments, modes, output), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    alone = stacked(step(nested(moments), maps, modes, output, averaged=False))
    np.testing.assert_array_equal(alone.own, found.own)
    np.testing.assert_array_equal(alone.cross, moments.cross)


def test_what_does_nothing_is_left_out_and_ends_as_0():
    nothing = np.zeros((SETTINGS, 1))
    steps = Steps(np.ones((SETTINGS, 1, 1)), nothing, nothing, *np.ones((3, SETTINGS)))
    _, moments, modes, _ = case(1)
    maps = step_maps(steps, modes.eigenvalue)
    assert maps.transfer == [[None]]
    assert maps.noise == maps.seen == [None]
    ended = stacked(step(nested(moments), maps, modes, (1.0,), averaged=True))
    assert not ended.own.any()
    assert not ended.cross.any()


def test_steps_one_after_the_other_and_some_settings():
    steps, _, modes, _ = case(2, zeros=True)
    several = Steps(*(np.stack([each, 2 * each]) for each in steps))
    for place, maps in enumerate(step_maps(several, modes.eigenvalue).each()):
        alone = step_maps(Steps(*(each[place] for each in several)), modes.eigenvalue)
        for found, expected in ((maps, alone), (alone.select(slice(1, 3)), alone)):
            some = slice(1, 3) if found is not maps else slice(None)
            np.testing.assert_array_equal(found.propagator[1][1], expected.propagator[1][1][some])
            np.testing.assert_array_equal(found.transfer[2][0], expected.transfer[2][0][some])
            np.testing.assert_array_equal(found.keep, expected.keep[some])
    assert place == 1
