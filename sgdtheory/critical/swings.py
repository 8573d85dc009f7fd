"""Minima over γ that the mean path makes: those of momentum, of many turns, and of a few steps of different sizes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import Akima1DInterpolator

# The mean path is computed at so many places for each step, evenly in √γ, and some in log γ and log(1 − γ/edge)
PLACES_A_STEP = 8
LEAST_PLACES = 200
MOST_PLACES = 3200
NEXT_TO_EDGE = 0.05  # n(1 − γ/edge) of the last
NEARER_PLACES = 17  # and at so many about its minima,
MOST_NEARER = 100, 24, 12  # the least of them, nearer and nearer: they may be a millionth of what is between them
MOST_SWINGS = 6  # minima of what is expected that are looked into at a time
SWINGS_WITHIN = 2.0, 1.1  # and how far above the least, the first time and after
WIDE = 0.5  # between the least place and the next: what is smooth is known in between, too
AS_EXPECTED = 0.01  # of what was promised: if the least known is no farther from it no more is looked for
KNOWN_BY = 3  # places about a minimum
LEAST_RISK = 1e-300  # so that a risk has a logarithm
SIDES = np.array([[-1], [0], [1]])

RiskOf = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]  # of B, γ, n and the error allowed
MeanOf = Callable[[np.ndarray, float], np.ndarray]  # of γ and n


class Swings(NamedTuple):
    """What is known of a bias that swings with γ: that of momentum, like `cos²(n ω(γ))`, and `Π (1 − γ_t λ)²`.

    Its minima lie close together, those of many turns at large γ. The mean path has them too, at next to no cost; what
    noise adds does not swing.

    Attributes:
        parts: (2, …) bias and variance of B, γ, n and the error allowed.
        mean: (G,) risk of the mean path alone, of the leading directions, after n steps with G values of γ.
        lasting: (P,) whether there still is something that swings, of P least risks seen so far.
        few: (P,) whether the steps are so few that there may be.
    """

    parts: RiskOf
    mean: MeanOf
    lasting: Callable[[np.ndarray], np.ndarray]
    few: np.ndarray


class SwingSearch:
    """Where the risk of one setting may have minima that the mean path makes.

    Args:
        setting: its index.
        mean: the risk of the mean path.
        edge, steps: the stability edge and n.
        ends: the first and the last place of interest.
        share, place: γ/edge of places, and back.
    """

    def __init__(
        self,
        setting: int,
        mean: MeanOf,
        edge: float,
        steps: float,
        ends: tuple[float, float],
        share: Callable[[np.ndarray], np.ndarray],
        place: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self.setting = setting
        self.end = ends[1]
        self.share = share
        self.place = place
        self._mean = lambda shares: mean(edge * shares.ravel(), steps).reshape(shares.shape)
        first = float(share(np.array([ends[0]]))[0])
        number = int(np.clip(PLACES_A_STEP * steps, LEAST_PLACES, MOST_PLACES))
        dense = (np.arange(1.0, number) / number) ** 2  # oscillators turn by √(γλ) a step
        dense = np.append(dense[dense > first], np.geomspace(first, 1.0, LEAST_PLACES)[1:])
        self._dense = np.union1d(dense, 1 - np.geomspace(NEXT_TO_EDGE / steps, 0.5, LEAST_PLACES))
        self._dense_mean = self._mean(self._dense)
        self._within = SWINGS_WITHIN[0]
        self._promised = 0.0

    def places(self, place: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Three places about each of the least minima that (G,) values of log Δ at known places leave possible.

        And the middles of wide intervals beside the least of these places.

        The risk is that of the mean path and what is smooth in γ, which is interpolated; each round knows more of that,
        until the least is what was expected.
        """
        beside = _halved(place, int(value.argmin()))
        if abs(np.exp(value.min()) - self._promised) <= AS_EXPECTED * self._promised:
            return beside
        known = self.share(place)
        smooth = Akima1DInterpolator(place, np.log(np.maximum(np.exp(value) - self._mean(known), LEAST_RISK)))

        def expected(share: np.ndarray, mean: np.ndarray) -> np.ndarray:
            return mean + np.exp(smooth(np.clip(self.place(share), place[0], place[-1])))

        risk = expected(self._dense, self._dense_mean)
        j = 1 + np.flatnonzero((risk[1:-1] <= risk[:-2]) & (risk[1:-1] <= risk[2:]))
        about = np.searchsorted(known, self._dense[j + 1], side="right") - np.searchsorted(known, self._dense[j - 1])
        j = j[about < KNOWN_BY]
        if not j.size:
            return beside
        three = self._dense[j + SIDES]
        apart = (three[2] - three[0]) / (NEARER_PLACES - 1)
        risk = risk[j][None]
        for most in MOST_NEARER:
            best = np.argsort(risk.min(0))[:most]
            three = three[:, best]
            apart = apart[best]
            near = np.linspace(three[0], three[2], NEARER_PLACES)
            risk = expected(near, self._mean(near))
            middle = np.clip(risk.argmin(0), 1, NEARER_PLACES - 2)
            three = np.take_along_axis(near, middle + SIDES, axis=0)
        three = three[1] + apart * SIDES
        best = np.argsort(risk.min(0))[:MOST_SWINGS]
        best = best[risk.min(0)[best] < self._within * min(risk.min(), np.exp(value.min()))]
        self._within = SWINGS_WITHIN[1]
        self._promised = risk.min()
        return np.append(beside, self.place(np.unique(three[:, best])))


def _halved(place: np.ndarray, k: int) -> np.ndarray:
    """The middles of the intervals on both sides of the k-th place, if they are wide."""
    middles = (place[1:] + place[:-1]) / 2
    beside = np.arange(max(k - 1, 0), min(k + 1, middles.size))
    return middles[beside[np.diff(place)[beside] > WIDE]]
