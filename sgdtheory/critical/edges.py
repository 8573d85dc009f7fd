"""Ends of the range of γ for many settings: stability thresholds, and where runs diverge."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import elementwise

from sgdtheory.critical.rate_search import LEAST_RISK

# Edges of a decade of B are interpolated from this many Chebyshev points if the last two coefficients of log γ are
# below RESOLVED. Edges that are not as smooth are searched one by one.
NODES, RESOLVED = 24, 1e-10
MOST_DECADES = 8  # Edges beyond this many decades of B are searched one by one, because few are asked for.
# The search for an edge begins this share below that of a smaller batch size, which is no larger.
BELOW_EDGE = 1e-6
# A run whose risk exceeds this many times the initial risk has diverged. A smaller factor ends the range before minima
# at larger γ: of 3,909 random runs of schedule-free SGD (1 to 7 directions, up to 100 steps, B from 10³ to 10¹⁵) 84
# have their least risk beyond a factor of 10, 6 beyond 10³ and 1 beyond this one; of 3,884 runs with B ≤ 512 none
# beyond 1.5.
DIVERGED = 1e4
# 2^30/λ_1 ends the range of γ where runs do not diverge at all, as those that take no step.
LARGEST_EXPONENT = 30
# Ends are known to REFINED over n where steps resonate, because minima there are as narrow as 1/n of the end, and to
# COARSEST or better after few steps.
REFINED, COARSEST = 0.25, 0.1

EdgesOf = Callable[[np.ndarray, float], np.ndarray]  # of B, and of a γ that is known to be stable with these
RiskOf = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # of B, γ and n

_POINTS = chebyshev.chebpts1(NODES)
_TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_POINTS, NODES - 1))


class Edges:
    """The largest stable γ of a method for any B: each is looked for once.

    Args:
        look: the edges of batch sizes, increasing.
        between: whether those of a decade of B are interpolated, as log γ in log B: where a search costs more.
    """

    def __init__(self, look: EdgesOf, between: bool) -> None:
        self.look = look
        self.between = between
        self.known: dict[float, float] = {}
        self.decades: dict[int, np.ndarray | None] = {}

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """Return the (P,) edges."""
        new = np.setdiff1d(batch, list(self.known))
        alone = np.ones(new.size, dtype=bool)
        if self.between:
            decades = np.floor(np.log10(new)).astype(int)
            for decade in np.unique(decades).tolist():
                inside = decades == decade
                if (series := self._series(decade)) is not None:
                    found = np.exp(chebyshev.chebval(2 * (np.log10(new[inside]) - decade) - 1, series))
                    self.known.update(zip(new[inside].tolist(), found.tolist(), strict=True))
                    alone &= ~inside
        if alone.any():
            self._look(new[alone])
        return np.array([self.known[size] for size in batch.tolist()])

    def _look(self, batch: np.ndarray) -> np.ndarray:
        stable = max((edge for size, edge in self.known.items() if size <= batch[0]), default=0.0)
        found = self.look(batch, stable * (1 - BELOW_EDGE))
        self.known.update(zip(batch.tolist(), found.tolist(), strict=True))
        return found

    def _series(self, decade: int) -> np.ndarray | None:
        """Return Chebyshev's coefficients of log γ in a decade; None where it is not smooth."""
        if decade not in self.decades:
            self.decades[decade] = None
            if 0 <= decade <= MOST_DECADES:
                edges = self._look(10 ** (decade + (_POINTS + 1) / 2))
                with np.errstate(all="ignore"):
                    series = _TO_COEFFICIENTS @ np.log(edges)
                # The last coefficients have decayed unless γ has a kink, where another mode becomes the first.
                if np.abs(series[-2:]).max() < RESOLVED:
                    self.decades[decade] = series
        return self.decades[decade]


class DivergingRates:
    """The γ at which the risk of n steps exceeds `DIVERGED` times the initial risk: the end of the range of γ.

    For algorithms without a stability threshold, such as those whose coefficients change with the step: what is stable
    in the first step says nothing of later ones. γ is doubled or halved from the end of a setting nearby, at first from
    1/λ_1, at the next power of two of B and at both powers of two about n, so that few runs serve many settings. A
    larger batch never hurts, so that no end is too small for that. Where steps resonate the end is refined at B and n
    themselves.

    Args:
        risk: the exact risk of B, γ and n.
        initial_risk: Δ of w_0.
        unit: 1/λ_1.
        fewest: n below it leave the risk as it is, whatever γ: their end is that of so many steps.
        resonant: n/B up to which steps may resonate.
        stretching: whether runs of other lengths are alike. A function of the step may have no values beyond n, and is
            another schedule before: then γ is doubled at n itself.
    """

    def __init__(
        self, risk: RiskOf, initial_risk: float, unit: float, fewest: float, resonant: float, stretching: bool = True
    ) -> None:
        self.risk = risk
        self.most = DIVERGED * initial_risk
        self.unit = unit
        self.fewest = fewest
        self.resonant = resonant
        self.stretching = stretching
        self.exponents: dict[tuple[float, float], int] = {}
        self.refined: dict[tuple[float, float], float] = {}

    def __call__(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the (P,) ends of the range of γ."""
        steps = np.maximum(steps, self.fewest)
        ends = self.coarse(batch, steps)
        for k in np.flatnonzero(steps <= self.resonant * batch).tolist():
            ends[k] = self.refined.get((batch[k], steps[k]), np.nan)
        new = np.flatnonzero(np.isnan(ends))
        if new.size:
            ends[new] = self._refined(batch[new], steps[new], self.coarse(batch[new], steps[new]))
            self.refined.update(zip(zip(batch[new].tolist(), steps[new].tolist(), strict=True), ends[new], strict=True))
        return ends

    def coarse(self, batch: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the (P,) powers of two of 1/λ_1 at which runs with about these n, and B or more, have diverged."""
        sizes = 2 ** np.ceil(np.log2(batch))
        steps = np.maximum(steps, self.fewest)
        if not self.stretching:
            return self.unit * 2.0 ** self._exponents(sizes, steps)
        log_steps = np.log2(steps)
        found = [self._exponents(sizes, 2 ** around(log_steps)) for around in (np.floor, np.ceil)]
        return self.unit * 2.0 ** np.maximum(*found)

    def _exponents(self, sizes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        keys = list(zip(sizes.tolist(), numbers.tolist(), strict=True))
        if new := [key for key in dict.fromkeys(keys) if key not in self.exponents]:
            begin = np.array([self._nearest_exponent(key) for key in new])
            batch, number = np.array(new).T
            self.exponents.update(zip(new, self._climb(batch, number, begin).tolist(), strict=True))
        return np.array([self.exponents[key] for key in keys])

    def _nearest_exponent(self, key: tuple[float, float]) -> int:
        """Return the exponent of the known setting nearest to a new one in log B and log n; 0 if none is known."""
        if not self.exponents:
            return 0
        away = np.abs(np.log(np.array(list(self.exponents)) / key)).max(1)
        return list(self.exponents.values())[int(away.argmin())]

    def _climb(self, batch: np.ndarray, steps: np.ndarray, begin: np.ndarray) -> np.ndarray:
        """Return the (P,) k ≤ `LARGEST_EXPONENT` with which 2^k/λ_1 has diverged, where 2^(k − 1)/λ_1 has not.

        The search begins at `begin`, (P,), and goes up or down.
        """
        exponent = begin.copy()
        down = self._diverged(batch, self.unit * 2.0**exponent, steps)
        step = np.where(down, -1, 1)
        open_ = np.arange(batch.size)
        while open_.size:
            exponent[open_] += step[open_]
            diverged = self._diverged(batch[open_], self.unit * 2.0 ** exponent[open_], steps[open_])
            # The answer is known once one γ diverges and the one before it does not, or the other way.
            going_on = (diverged == down[open_]) & (np.abs(exponent[open_]) < LARGEST_EXPONENT)
            open_ = open_[going_on]
        return np.where(down, exponent + 1, exponent)

    def _diverged(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return ~(self.risk(batch, rate, steps) <= self.most)

    def _refined(self, batch: np.ndarray, steps: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return where the risk crosses `DIVERGED` times the initial one below the ends; the ends where it does not."""
        low = ends / 2
        while (
            open_ := np.flatnonzero(self._diverged(batch, low, steps) & (low > self.unit / 2**LARGEST_EXPONENT))
        ).size:
            low[open_] /= 2
        crossed = np.flatnonzero(self._diverged(batch, ends, steps))
        if not crossed.size:
            return ends

        def excess(log_rate: np.ndarray, size: np.ndarray, number: np.ndarray) -> np.ndarray:
            return np.log(np.maximum(self.risk(size, np.exp(log_rate), number) / self.most, LEAST_RISK))

        # All share one tolerance: that of the longest run.
        tolerances = {"xatol": min(REFINED / steps.max(), COARSEST), "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}
        brackets = np.log(low[crossed]), np.log(ends[crossed])
        root = elementwise.find_root(excess, brackets, args=(batch[crossed], steps[crossed]), tolerances=tolerances)
        ends = ends.copy()
        ends[crossed] = np.exp(root.bracket[1])
        return ends
