"""B* of methods that are not linear against every batch size, every number of steps and a dense grid of γ.

The brute force asks for risks and nothing else. Risks are compared to 1e-3, and batch sizes with those of the brute
force whose risks are within 1e-3 of what decides.
"""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk import run_risks
from tests.marks import sampled

LAST = st.LastIterate()
TOLERANCE = 1e-3
THREE_AND_THREE = st.LeastSquares([1, 1, 1, 0.057, 0.057, 0.057], [0.17, 0.17, 0.17, 0.65, 0.65, 0.65], 13.9)
LINE = np.arange(1.0, 5)
STEEP = st.LeastSquares(LINE**-1.8, LINE**-3.2, 0.013)
NOISY = st.LeastSquares([1.0, 0.3], [1.0, 1.0], 20.0)
CASES = [
    (THREE_AND_THREE, st.Algorithm(st.SignSGD(0.9), st.Linear(), average=LAST), 6),  # it was 7, more than D
    (STEEP, st.Algorithm(st.SignSGD(), st.Cosine(), average=st.TailAverage(0.5)), 5),  # R_opt was below that of whole B
    (NOISY, st.Algorithm(st.Adam(0.9, 0.999), st.Linear(), average=LAST), 5),  # one step is best
    (STEEP, st.Algorithm(st.Adam(0.9, 0.99, weight_decay=0.3), average=LAST), 5),
]
METHODS = {
    "sign": st.SignSGD(),
    "momentum": st.SignSGD(0.9),
    "Adam": st.Adam(0.9, 0.99),
    "Adam, ε": st.Adam(0.5, 0.8, 0.3),
    "normalized": st.NormalizedSGD(),
    "rotated sign": st.SignSGD(basis="random"),
    "rotated Adam": st.Adam(0.9, 0.999, basis="random"),
    "rotated momentum": st.SignSGD(0.8, basis="random"),
}


def least(problem, algorithm, batch, steps):
    """min_γ of `excess_risk`: a grid over all that may matter, and finer ones about its lowest minima.

    The γ of a grid go side by side, which takes less than a tenth of the time. Only the risk of the best one is that of
    `excess_risk`.
    """
    distance = np.sqrt(problem.signal / problem.eigenvalues)
    rates = np.geomspace(1e-3 * distance.max(), 4 * np.linalg.norm(distance), 40)
    known = {}

    def risks(rates):
        runs = (np.broadcast_to(float(each), rates.shape) for each in (batch, steps))
        options = {"tolerance": 1e-5, "estimate": False}
        found = run_risks(problem, algorithm, next(runs), rates, next(runs), **options).parts.sum(0)
        known.update(zip(found, rates))
        return found

    values = risks(rates)
    inner = np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1
    ratio = rates[1] / rates[0]
    for k in inner[values[inner] < 1.5 * values.min()]:
        finer = rates[k] * ratio ** np.linspace(-1, 1, 9)
        there = risks(finer)
        risks(finer[there.argmin()] * ratio ** np.linspace(-0.25, 0.25, 7))
    setting = {"batch_size": batch, "num_samples": batch * steps, "algorithm": algorithm}
    return st.excess_risk(problem, **setting, learning_rate=known[min(known)]).total


class Brute:
    """Tuned risks of all B and n of at most (1 + ω) D samples, (B, n)."""

    def __init__(self, problem, algorithm, samples):
        self.samples = samples
        self.budget = int(np.floor(1.2 * samples * (1 + 1e-12)))
        self.risk = np.full((self.budget + 1, self.budget + 1), np.inf)
        for batch in range(1, self.budget + 1):
            for steps in range(1, self.budget // batch + 1):
                self.risk[batch, steps] = least(problem, algorithm, batch, steps)
        self.with_all = np.array([self.risk[batch, samples // batch] for batch in range(1, samples + 1)])
        self.optimal = self.with_all.min()

    def useful(self, factor):
        """B that reach a multiple of R_opt with (1 + ω) D samples, in two steps or more, up to D."""
        within = self.risk[1 : self.samples + 1, 2:] <= factor * self.optimal
        return 1 + np.flatnonzero(within.any(axis=1))


def compare(problem, algorithm, samples):
    brute = Brute(problem, algorithm, samples)
    of_several = brute.with_all[: samples // 2].min()  # all but one step

    def solved():
        return st.critical_batch_size(problem, num_samples=samples, algorithm=algorithm, curve=False)

    if brute.optimal < of_several * (1 - TOLERANCE):
        with pytest.raises(ValueError, match="one step with all of them is not the best"):
            solved()
        return
    if brute.optimal >= of_several:
        found = solved()
    else:
        try:
            found = solved()
        except ValueError:  # both are within the tolerance
            return
    assert found.optimal_risk == pytest.approx(brute.optimal, rel=TOLERANCE)
    fewer = brute.useful(1 - TOLERANCE)
    more = brute.useful(1 + TOLERANCE)
    best = found.optimal_batch_size
    assert max(fewer, default=best) <= found.batch_size <= max(more)
    assert min(more) <= found.smallest_batch_size <= min(fewer, default=best)
    keeping = [1 + np.flatnonzero(brute.with_all <= 2 * (1 + sign * TOLERANCE) * brute.optimal)[-1] for sign in (-1, 1)]
    assert keeping[0] <= found.rate_batch_size <= keeping[1]


@pytest.mark.parametrize(("problem", "algorithm", "samples"), CASES)
def test_every_batch_size(problem, algorithm, samples):
    compare(problem, algorithm, samples)


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(METHODS, 7))
def test_every_batch_size_of_a_random_problem(name):
    random = np.random.default_rng([0, len(name)])
    number = np.arange(1.0, random.integers(2, 5))
    noise = 10 ** random.uniform(-2, 1.5)
    problem = st.LeastSquares(number ** -random.uniform(0.5, 3), number ** -random.uniform(0, 4), noise)
    schedule = (st.Constant(), st.Linear(), st.Cosine())[random.integers(3)]
    average = (LAST, LAST, st.UniformAverage(), st.TailAverage(0.5))[random.integers(4)]
    compare(problem, st.Algorithm(METHODS[name], schedule, average=average), 8 if "rotated" in name else 12)


def test_no_batch_size_is_larger_than_the_data():
    """If the overhead is above 1 the largest batch size would be larger: an error, as for SGD."""
    algorithm = st.Algorithm(st.SignSGD(), average=LAST)
    setting = {"num_samples": 10, "algorithm": algorithm, "curve": False}
    found = st.critical_batch_size(st.PowerLaw(1.5, 2.0), **setting)
    assert found.batch_size <= 10
    assert "one step with 12 samples also reaches the optimal risk" in found.remark
    with pytest.raises(ValueError, match="overhead must leave a critical batch size of at most num_samples, got 2,"):
        st.critical_batch_size(st.PowerLaw(1.5, 2.0), **setting, overhead=2.0)


def test_one_step_that_is_best():
    algorithm = st.Algorithm(st.SignSGD(), average=LAST)
    with pytest.raises(ValueError, match="one step with all of them is not the best, got 300"):
        st.critical_batch_size(st.PowerLaw(1.5, 2.0, noise_variance=100.0), num_samples=300, algorithm=algorithm)
