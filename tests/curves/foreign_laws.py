"""Loss curves of laws that are not the theory's, with the critical batch size that each law has by its own formula."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.loss_table import loss_tables

# Laws on which allowances were chosen, and laws on which they are tested.
CHOSEN = "saturating", "noise of γ", "kink", "best γ ∝ √B", "best γ ∝ B^p", "exponent", "drift"
TESTED = "warm-up", "two powers", "mixture", "user's", "theory"
OVERHEAD = 0.2
SCHEDULES = {
    "cosine": st.Cosine(final=0.1),
    "linear": st.Linear(),
    "wsd": st.WSD(),
    "constant": st.Constant(),
}
PEAK = 1e-3  # learning rate at log γ = 0
STEPS = 60  # A run has at least so many.


@dataclass(frozen=True)
class SaturatingLaw:
    """`L = E + A (u + s0)^−p + noise`, where u solves `u [1 + (B/b(u))^q] = samples · efficiency(γ)`.

    Attributes:
        half: b at D samples.
        samples: D.
        floor: E.
        gap: A (D + s0)^−p, the loss above E after D samples at vanishing batch sizes.
        power: p.
        offset: s0/D.
        exponent: q.
        drift: of `b ∝ u^drift`.
        second: loss after D samples that falls with three times the power.
        kink: after D/6 samples p becomes (1 + kink) p.
        warmup: loss that decays over the first 3% of the steps.
        noise: loss that the peak learning rate adds, over E.
        curvature: c of the efficiency `exp(−c log²(γ/γ*))`.
        rate_exponent: of `γ* ∝ B^r` below 4b.
    """

    half: float
    samples: float
    floor: float = 1.8
    gap: float = 0.8
    power: float = 0.3
    offset: float = 0.02
    exponent: float = 1.0
    drift: float = 0.0
    second: float = 0.0
    kink: float = 0.0
    warmup: float = 0.0
    noise: float = 0.0
    curvature: float = 0.0
    rate_exponent: float = 0.5

    def best_rate(self, batch: np.ndarray) -> np.ndarray:
        """Return log γ* at batch sizes; 0 where the law does not depend on the learning rate."""
        return self.rate_exponent * np.log(batch / (1 + batch / (4 * self.half))) * (self.curvature > 0)

    def need(self, batch: np.ndarray, log_samples: np.ndarray) -> np.ndarray:
        """Return the samples that a batch size needs, relative to vanishing ones, at the best learning rate."""
        half = self.half * np.exp(self.drift * (log_samples - np.log(self.samples)))
        return 1 + (batch / half) ** self.exponent

    def losses(self, steps: np.ndarray, batch: float, log_rate: float, factors: np.ndarray) -> np.ndarray:
        """Return the losses of a run without scatter."""
        away = log_rate - self.best_rate(np.asarray(batch))
        seen = np.log(steps * batch) - self.curvature * away**2
        log_samples = seen
        for _ in range(30):
            log_samples = seen - np.log(self.need(np.asarray(batch), log_samples))
        used, s0, bend = np.exp(log_samples), self.offset * self.samples, self.samples / 6
        above = self.gap * ((used + s0) / (self.samples + s0)) ** -self.power
        late = ((used + s0) / (bend + s0)) ** (-self.power * self.kink)
        above = np.where(used > bend, above * late, above)
        above = above + self.second * ((used + s0) / (self.samples + s0)) ** (-3 * self.power)
        decaying = self.warmup * np.exp(-steps / (0.03 * steps[-1]))
        return self.floor * (1 + self.noise * factors) + above + decaying

    def critical_batch_size(self, samples: float, log_cap: float) -> float:
        """Return the largest B that needs (1 + ω) times the samples of the best, at learning rates up to the cap."""
        batch = self.half * np.exp(np.linspace(-12, 6, 6000))
        away = np.minimum(log_cap - self.best_rate(batch), 0.0)
        need = self.need(batch, np.log(samples)) * np.exp(self.curvature * away**2)
        return float(batch[need <= (1 + OVERHEAD) * need.min()][-1])


@dataclass(frozen=True)
class TheoryAsLaw:
    """SGD on a power law at known batch sizes, with a learning rate that is far below the stability threshold."""

    half: float
    samples: float
    values: dict[str, float] = field(default_factory=dict)
    curvature: float = 1.0

    def best_rate(self, batch: np.ndarray) -> np.ndarray:
        """Return log γ, ∝ √B: a rule that a user may follow, not the best."""
        return 0.5 * np.log(batch / self.half)

    def losses(self, steps: np.ndarray, batch: float, log_rate: float, factors: np.ndarray) -> np.ndarray:
        """Return the losses of a run without scatter."""
        law = TheoryLaw()
        run = st.LossCurve(steps, PEAK * np.exp(log_rate) * factors, np.ones(steps.size), batch)
        values = self.values | {"step_size": self.values["step_size"] * run.learning_rate.max() / PEAK}
        coordinates = law.coordinates(values)
        return law.losses(law.values(coordinates[None]), law.prepared([run]))[0][0]

    def critical_batch_size(self, samples: float, log_cap: float) -> float:
        """Return B* as the theory's table has it."""
        law, top = TheoryLaw(), PEAK * float(np.exp(log_cap))
        values = self.values | {"step_size": self.values["step_size"] * top / PEAK}
        model = law.model(law.values(law.coordinates(values)[None]))
        run = st.LossCurve([1, 2, 3, 4], top, np.ones(4), self.half)
        table = loss_tables(model, law.prepared([run]).optimizer, st.Linear(), samples, self.half, top)[0]
        return table.critical_batch_size(samples, OVERHEAD)[0]


class Example(NamedTuple):
    """Curves, the samples for which B* is asked, and the law's own B*."""

    curves: list[st.LossCurve]
    samples: float
    truth: float


def example(name: str, num_sizes: int, swept: bool, seed: int) -> Example:
    """Return a random data set: several batch sizes, at one learning rate each or at three.

    Args:
        name: of the law, one of CHOSEN or TESTED.
        num_sizes: number of batch sizes.
        swept: whether three learning rates, a factor of two apart, were tried at each batch size.
        seed: of all that is random.
    """
    random = np.random.default_rng([seed, *map(ord, name)])
    half = float(np.exp(random.uniform(np.log(100), np.log(2000))))
    ratio = float(random.choice([3, 4, 6] if num_sizes < 4 else [2, 3]))
    middle = half * np.exp(random.uniform(np.log(0.25), np.log(3)))
    sizes = np.maximum(np.round(middle * ratio ** (np.arange(num_sizes) - (num_sizes - 1) / 2)), 1)
    samples = middle * np.exp(random.uniform(np.log(2e3), np.log(2e4)))
    law = _law(name, half, float(samples), random)
    shape = SCHEDULES[str(random.choice(["cosine", "cosine", "linear", "wsd", "constant"]))]
    scatter = np.exp(random.uniform(np.log(0.002), np.log(0.03)))
    length = int(random.choice([0, 0, 10, 40]))
    growth = float(random.choice([0.0, 0.4]))  # of the samples of a run with its batch size
    follows, off = bool(random.integers(2)), random.uniform(-0.5, 0.5)
    curves, largest = [], -np.inf
    for size in sizes.tolist():
        steps = max(int(samples * (size / sizes[-1]) ** growth / size), STEPS)
        if swept:
            nearest = np.round(law.best_rate(np.asarray(size)) / np.log(2)) * np.log(2)
            rates = [nearest + off + k * np.log(2) for k in (-1, 0, 1)]
        else:
            rates = [law.best_rate(np.asarray(middle)) + off + follows * 0.5 * np.log(size / middle)]
        for log_rate in map(float, rates):
            count = min(steps // 2, int(random.integers(150, 1200)))
            at = np.unique(np.round(np.linspace(max(0.01 * steps, 1), steps, count)))
            factors = shape.at(np.minimum(at / steps, 1 - 1e-9))
            loss = law.losses(at, size, log_rate, factors) * np.exp(scatter * _noise(at.size, length, random))
            curves.append(
                st.LossCurve(at, PEAK * np.exp(log_rate) * factors, loss, size, name=f"{size:g} {log_rate:.2f}")
            )
            largest = max(largest, log_rate)
    asked = max(float(curve.step[-1] * curve.batch_size[0]) for curve in curves)
    return Example(curves, asked, law.critical_batch_size(asked, largest))


def _noise(count: int, length: int, random: np.random.Generator) -> np.ndarray:
    """(count,) standard normal numbers, whose correlation falls by e over `length` rows."""
    noise = random.standard_normal(count)
    kept = np.exp(-1 / length) if length else 0.0
    for row in range(1, count):
        noise[row] = kept * noise[row - 1] + np.sqrt(1 - kept**2) * noise[row]
    return noise


def _law(name: str, half: float, samples: float, random: np.random.Generator) -> SaturatingLaw | TheoryAsLaw:
    if name == "theory":
        values = {"capacity": random.uniform(1.2, 2.0), "source": random.uniform(1.4, 2.2), "signal": 1.0}
        return TheoryAsLaw(half, samples, values | {"noise": half / 8, "step_size": 0.1, "floor": 1.8})
    if name == "user's":
        offset = 400 / samples
        return SaturatingLaw(half, samples, 1.8, 35 * (samples + 400) ** -0.3, 0.3, offset, noise=0.005)
    law = {
        "saturating": {},
        "noise of γ": {"noise": random.uniform(0.005, 0.02)},
        "kink": {"kink": random.uniform(-0.5, 0.6)},
        "best γ ∝ √B": {"curvature": 0.25},
        "exponent": {"exponent": float(random.choice([0.8, 1.25]))},
        "warm-up": {"warmup": random.uniform(0.3, 1.0)},
        "two powers": {"second": random.uniform(0.02, 0.3), "noise": random.uniform(0, 0.01)},
        "drift": {"drift": random.uniform(0.1, 0.35)},
        "best γ ∝ B^p": {
            "curvature": random.uniform(0.1, 0.35),
            "rate_exponent": float(random.choice([0.25, 1.0])),
            "noise": random.uniform(0, 0.01),
        },
        "mixture": {
            "exponent": random.uniform(0.85, 1.2),
            "kink": random.uniform(-0.3, 0.3),
            "warmup": random.uniform(0, 0.5),
            "drift": random.uniform(0, 0.2),
        },
    }[name]
    floor, gap, power = random.uniform(0.8, 2.8), random.uniform(0.4, 1.2), random.uniform(0.2, 0.5)
    return SaturatingLaw(half, samples, floor, gap, power, **law)
