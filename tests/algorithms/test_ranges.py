"""Values that parts of algorithms take, at the ends of their ranges, by default and on the explorer's sliders."""

import math

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import parameters
from sgdtheory.algorithms.coordinates import Coordinates, random_rotation
from sgdtheory.algorithms.registry import KINDS

DEFAULTS = {
    "sgd": "SGD(weight_decay=0.0)",
    "schedule-free": "ScheduleFree(interpolation=0.9)",
    "sign": "SignSGD(momentum=0.0, basis='eigenvectors')",
    "normalized": "NormalizedSGD(momentum=0.0)",
    "adam": "Adam(beta1=0.9, beta2=0.999, epsilon=0.0, basis='eigenvectors', weight_decay=0.0)",
    "lion": "Lion(beta1=0.9, beta2=0.99, basis='eigenvectors')",
    "muon": "Muon(momentum=0.95, nesterov=False, newton_schulz=0)",
    "constant": "Constant(warmup=0.0)",
    "cosine": "Cosine(final=0.0, warmup=0.0)",
    "linear": "Linear(final=0.0, warmup=0.0)",
    "wsd": "WSD(decay=0.2, warmup=0.0, power=1.0)",
    "tail": "TailAverage(fraction=0.5)",
    "uniform": "UniformAverage()",
    "last": "LastIterate()",
}
OF_TWO = {
    st.DANA(0.2, 6): "DANA(momentum_share=0.2, damping=6.0, momentum_decay=0.0, momentum=1.0)",
    st.LocalSGD(4, 10): (
        "LocalSGD(num_workers=4, local_steps=10, outer_learning_rate=1.0, outer_momentum=0.0, inner_momentum=0.0)"
    ),
    st.PowerDecay(2): "PowerDecay(exponent=2.0, warmup=0.0, decay=1.0)",
}
SLIDERS = {  # kind and field → low, high, step and first value; those that follow are of a batch-size schedule
    "sgd weight_decay": (0, 0.1, 0.001, 0), "heavy-ball momentum": (0, 0.99, 0.01, 0.9),
    "nesterov momentum": (0, 0.99, 0.01, 0.9), "schedule-free interpolation": (0, 0.99, 0.01, 0.9),
    "accelerated coupling": (0, 1, 0.01, 0.5), "accelerated forgetting": (0, 1, 0.01, 0.1),
    "accelerated long_step": (0, 20, 0.1, 2), "dana momentum_share": (0, 1, 0.01, 0.2),
    "dana damping": (0, 20, 0.1, 6), "dana momentum_decay": (0, 1, 0.01, 0.5), "dana momentum": (0, 1, 0.01, 1),
    "delayed delay": (0, 32, 1, 4), "sign momentum": (0, 0.99, 0.01, 0), "normalized momentum": (0, 0.99, 0.01, 0),
    "adam beta1": (0, 0.99, 0.01, 0.9), "adam beta2": (0, 0.999, 0.001, 0.999), "adam epsilon": (0, 1, 0.01, 0),
    "adam weight_decay": (0, 1, 0.01, 0), "lion beta1": (0, 0.99, 0.01, 0.9), "lion beta2": (0, 0.999, 0.001, 0.99),
    "muon momentum": (0, 0.99, 0.01, 0.95), "muon newton_schulz": (0, 10, 1, 0), "local num_workers": (1, 64, 1, 4),
    "local local_steps": (1, 100, 1, 10), "local outer_learning_rate": (0.1, 2, 0.05, 1),
    "local outer_momentum": (0, 0.95, 0.05, 0), "local inner_momentum": (0, 0.95, 0.05, 0),
    "constant warmup": (0, 0.5, 0.01, 0), "cosine final": (0, 1, 0.01, 0, 0, 64, 0.5, 8),
    "cosine warmup": (0, 0.5, 0.01, 0), "linear final": (0, 1, 0.01, 0, 0, 64, 0.5, 8),
    "linear warmup": (0, 0.5, 0.01, 0), "wsd decay": (0.01, 1, 0.01, 0.2), "wsd warmup": (0, 0.5, 0.01, 0),
    "wsd power": (0.1, 3, 0.05, 1), "power exponent": (0, 4, 0.05, 1), "power warmup": (0, 0.5, 0.01, 0),
    "power decay": (0.01, 1, 0.01, 1), "tail fraction": (0.01, 1, 0.01, 0.5),
    "exponential window": (0.01, 1, 0.01, 0.2),
}  # fmt: skip


def test_what_is_left_out_is_the_default():
    kinds = {name: kind for part in KINDS.values() for name, kind in part.items()}
    assert {name: repr(kinds[name]()) for name in DEFAULTS} == DEFAULTS
    assert {repr(each) for each in OF_TWO} == set(OF_TWO.values())
    whole = st.Algorithm()
    parts = whole.method, whole.schedule, whole.batch_schedule, whole.average, whole.clip_norm
    assert parts == (st.SGD(), st.Constant(), st.Constant(), st.UniformAverage(), None)


def test_sliders():
    found = {}
    for kinds in (KINDS["method"], KINDS["schedule"], KINDS["average"]):
        for name, kind in kinds.items():
            for field, parameter in parameters(kind).items():
                if parameter.slider:
                    of_batch = parameter.of_batch[1:] if parameter.of_batch else ()
                    found[f"{name} {field}"] = (*parameter.slider[1:], *of_batch)
    assert found == SLIDERS


@pytest.mark.parametrize(
    "make",
    [
        *(lambda c=c: st.Algorithm(clip_norm=c) for c in (1e-300, 0.5, 1e300)),
        lambda: st.LocalSGD(10**15, 10**15, 1e-9, 0.999, 0.999),
        lambda: st.AcceleratedSGD(0, 0, 0),
        lambda: st.AcceleratedSGD(1, 1, 1e9),
        lambda: st.DANA(0, 1e-9, 0, 0),
        lambda: st.DANA(0.5, 0, 0, 0.999),
        lambda: st.ScheduleFree(0),
        lambda: st.ScheduleFree(1),
        lambda: st.WSD(1, 0),
        lambda: st.WSD(0.25, 0.75),
        lambda: st.TailAverage(1),
        lambda: st.DelayedSGD(256),
        lambda: st.DelayedSGD([0.5, *[0.0] * 255, 0.5 + 0.9e-9]),
        lambda: st.ExponentialAverage(0),
        lambda: st.ExponentialAverage(window=1e9),
        lambda: Coordinates([[1.0, 0.9e-6], [0.0, 1.0]]),
    ],
)
def test_the_ends_of_ranges_are_taken(make):
    assert isinstance(make(), object)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: st.LocalSGD(2 * 10**15, 1), r"num_workers must be at most 1e\+15, got 2e\+15"),
        (lambda: st.LocalSGD(2, 1, 0), "outer_learning_rate must be positive and finite, got 0"),
        (lambda: st.LocalSGD(2, 1, np.inf), "outer_learning_rate must be positive and finite, got inf"),
        (lambda: st.LocalSGD(2, 1, 1, 1), "outer_momentum must be at least 0 and below 1, got 1"),
        (lambda: st.AcceleratedSGD(0.5, 1.1, 1), "forgetting must be between 0 and 1"),
        (lambda: st.AcceleratedSGD(0.5, 0.5, np.inf), "long_step must be"),
        (lambda: st.DANA(0.2, 0, 0, 1), "momentum must be below 1 where damping is 0"),
        (lambda: st.DANA(0.2, 1, 0, 1.1), "momentum must be between 0 and 1, got 1.1"),
        (lambda: st.DANA(0.2, np.inf), "damping must be at least 0 and finite"),
        (lambda: st.ScheduleFree(1.1), "interpolation must be between 0 and 1"),
        (lambda: st.WSD(0.3, 0.71), "warmup and decay must add up to at most 1"),
        (lambda: st.DelayedSGD(257), "delay must be at most 256 steps, got 257"),
        (lambda: st.DelayedSGD([0.5, *[0.0] * 256, 0.5]), "delay must be at most 256 steps, got 257"),
        (lambda: st.DelayedSGD([0.5, 0.5 + 1.1e-9]), "shares ≥ 0 that add up to 1"),
        (lambda: st.SGD(np.inf), "weight_decay must be at least 0 and finite"),
        (lambda: st.PowerDecay(-0.1), "exponent must be at least 0 and finite"),
        (lambda: st.Constant(warmup=1.1), "warmup must be between 0 and 1"),
        (lambda: Coordinates([[1.0, 1.1e-6], [0.0, 1.0]]), "basis must have orthonormal rows"),
    ],
)
def test_what_lies_beyond_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("method", "kept", "gain", "dependence", "cleared"),
    [
        (st.LocalSGD(1, 1), 1, 1, "none", 0),
        (st.LocalSGD(1, 5), 1, 1, "none", 0),
        (st.LocalSGD(1, 5, 0.5), 2, 1, "period", 1),
        (st.LocalSGD(3, 1, inner_momentum=0.75), 2, 4, "none", 0),
        (st.LocalSGD(2, 5), 2, 1, "period", 1),
        (st.LocalSGD(2, 5, 0.5, 0.75), 4, 2, "period", 2),
        (st.LocalSGD(2, 5, 0.5, 0.75, 0.5), 6, 4, "period", 2),
    ],
    ids=str,
)
def test_vectors_of_local_steps(method, kept, gain, dependence, cleared):
    """No more than move; a unit gradient goes through both momenta."""
    assert len(method.kept) == len(method.start) == len(method.output) == kept
    assert (sum(method.start), method.gain, method.step_dependence) == (1, gain, dependence)
    assert (len(method.cleared), method.vectors) == (cleared, 2 * method.num_workers + 2)
    assert st.Algorithm(method).constant == (dependence == "none")
    assert st.Algorithm(method).steady
    assert st.Algorithm(method).workers == method.num_workers


def test_which_algorithms_are_linear_steady_and_sequential():
    assert st.Algorithm(st.HeavyBall(0.5)).linear
    assert not st.Algorithm(clip_norm=2.0).linear
    assert not st.Algorithm(st.Adam()).linear
    assert not st.Algorithm(st.ScheduleFree()).steady
    assert not st.Algorithm(schedule=st.Cosine()).constant
    assert not st.Algorithm(batch_schedule=st.Linear(final=2)).steady
    late, mixed = st.DelayedSGD(2), st.DelayedSGD([0.5, 0.5])
    assert (late.late, late.random, late.longest_delay, late.vectors, late.sequential) == (True, False, 2, 3, False)
    assert (mixed.late, mixed.random, st.SGD().late, st.SGD().sequential) == (True, True, False, True)
    assert (st.Adam().vectors, st.Lion().vectors, st.Muon().vectors) == (3, 2, 2)


@pytest.mark.parametrize("warmup", [0.0, 0.25])
def test_schedules_are_their_formulas(warmup):
    """At and beside every knot; u is the fraction of the run, v what is left of it after the warm-up."""
    for u in (0.0, 0.1, 0.2, 0.25, 0.5, 0.6, 0.7, 0.875, 0.99):
        v = max(u - warmup, 0) / (1 - warmup)
        x = max(u - 0.6, 0) / 0.4
        for shape, after in (
            (st.Constant(warmup), 1),
            (st.Cosine(0.1, warmup), 0.1 + 0.9 * (1 + math.cos(math.pi * v)) / 2),
            (st.Linear(3, warmup), 1 + 2 * v),
            (st.WSD(0.4, warmup), 1 - x),
            (st.WSD(0.4, warmup, 0.5), 1 - x**0.5),
            (st.WSD(0, warmup), 1),
            (st.PowerDecay(3, warmup), (1 - v) ** 3),
            (st.PowerDecay(3, warmup, 0.4), (1 - x) ** 3),
            (st.PowerDecay(3, warmup, 0.0), 1),
        ):
            expected = u / warmup if u < warmup else after
            assert float(shape.at(np.array(u))) == pytest.approx(expected, abs=1e-12), (shape, u)


def test_a_random_basis_is_drawn_from_its_seed():
    np.testing.assert_array_equal(random_rotation(3, (1, 2)), random_rotation(3, [1, 2]))
    assert not np.allclose(random_rotation(3, (1, 2)), random_rotation(3, (2, 1)))
