"""Priors from other runs: the theory's parameters within a factor of two, and the theory's own error."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sgdtheory.curves.laws.theory import ERROR_SHARE, TheoryLaw

FACTOR = 0.7  # Parameters of different models differ by about a factor of two (standard deviation of their log).
DEVIATIONS = {  # The prior has these standard deviations of the features' logs.
    "capacity": FACTOR,
    "source": 0.5,  # Every fit has b − 1 between 0.57 and 0.92.
    "signal": FACTOR,
    "noise": FACTOR,
    "step_size": 1.0,  # γλ_1 depends on the optimizer and on its learning rate.
    "floor": 0.15,  # L0/L is a share of the loss, and a factor of two would put the floor above the loss.
    "growth": FACTOR,
}
LEAST_DECAY = 0.01  # The prior of growth uses at least this weight decay, since a decay of 0 gives norms no scale.


class Features(NamedTuple):
    """Numbers of the theory without units; L is the loss that a run comes to.

    Attributes:
        capacity, source: a − 1 and b − 1.
        signal: A/L.
        noise: (σ²/B) γλ_1/L, about twice what noise adds to the loss.
        step_size: γλ_1 at the largest learning rate γ.
        floor: L0/L.
        growth: g/(2wγ), the squared norm at which weights neither grow nor shrink; not without weight decay.
    """

    capacity: float
    source: float
    signal: float
    noise: float
    step_size: float
    floor: float
    growth: float = np.nan


class Experience(NamedTuple):
    """Parameters fitted to runs that have ended, and the theory's error on such runs.

    Attributes:
        decayed: model → features, fitted with weight decay.
        constant: the same without.
        doubt: standard deviation of the law's error over the fall of log loss that it foretells.
    """

    decayed: Mapping[str, Features]
    constant: Mapping[str, Features]
    doubt: float

    def without(self, models: tuple[str, ...], doubt: float) -> "Experience":
        """Return the experience of the other models, with a doubt that was found on them too."""
        decayed, constant = (
            {name: each for name, each in known.items() if name not in models}
            for known in (self.decayed, self.constant)
        )
        return Experience(decayed, constant, doubt)


PUBLIC = Experience(  # The experiment loss_curves fitted three curves of each model; L is that of cosine_24000.
    {
        "25M": Features(0.10336, 0.60118, 3.2772, 0.017338, 0.086629, 0.91529, 1.9826),
        "100M": Features(0.26433, 0.65811, 2.3626, 0.041394, 0.039795, 0.89545, 2.8788),
        "400M": Features(0.24956, 0.57237, 1.3539, 0.046546, 0.018750, 0.85802, 1.7239),
    },
    {
        "25M": Features(0.37426, 0.69307, 1.8933, 0.026542, 0.031811, 0.91294),
        "100M": Features(1.02771, 0.91796, 1.5214, 0.062794, 0.011770, 0.88403),
        "400M": Features(0.53909, 0.64246, 1.0895, 0.059748, 0.011000, 0.84757),
    },
    doubt=ERROR_SHARE,
)


class Prior(NamedTuple):
    """Independent standard normals `matrix @ coordinates − centre`, (P, P) and (P,)."""

    matrix: np.ndarray
    centre: np.ndarray

    @property
    def coordinates(self) -> np.ndarray:
        """(P,) the most likely ones."""
        return np.linalg.solve(self.matrix, self.centre)


def prior_of(law: TheoryLaw, experience: Experience, loss: float, batch: float, rate: float) -> Prior:
    """Return the prior of the law's coordinates.

    Args:
        law: with or without weight decay.
        experience: of other runs; the centre is the mean of the logs of their features.
        loss: L, the latest of the run.
        batch: B of the run; 1 where it is not known.
        rate: γ, the largest of the run.
    """
    known = experience.constant if law.weight_decay is None else experience.decayed
    features = np.log([[getattr(each, name) for name in law.names] for each in known.values()]).mean(0)
    norm = np.log(2 * max(law.weight_decay or 0.0, LEAST_DECAY) * rate)
    units = {"signal": np.log(loss), "noise": np.log(loss * batch), "floor": np.log(loss), "growth": norm}
    matrix = np.eye(len(law.names))
    matrix[law.names.index("noise"), law.names.index("step_size")] = 1.0  # their product
    deviation = np.array([DEVIATIONS[name] for name in law.names])
    centre = features + np.array([units.get(name, 0.0) for name in law.names])
    return Prior(matrix / deviation[:, None], centre / deviation)
