"""Quartics through five neighbouring points of many functions at once: where each is lowest in its bracket."""

from typing import NamedTuple

import numpy as np

FITTED = 5  # A polynomial has this many points.
_SHARES = np.linspace(0.0, 1.0, 129)[:, None]


class Quartics(NamedTuple):
    """K quartics as functions of u, the distance from the lowest of their points in units of a bracket's wider side.

    Attributes:
        nodes, values: (5, K) u of their points, and the values there above that of the lowest one.
        unit: (K,) the wider sides of the brackets.
        lowest, gain: (K,) u where each is lowest within the bracket, and by how much.
        bend: (K,) second derivative there, by the position.
        outwards: (K,) how steeply it falls towards a position at which it ends and is lowest; −inf elsewhere.
    """

    nodes: np.ndarray
    values: np.ndarray
    unit: np.ndarray
    lowest: np.ndarray
    gain: np.ndarray
    bend: np.ndarray
    outwards: np.ndarray

    def select(self, which: np.ndarray) -> "Quartics":
        """Return those of an index or a mask."""
        return Quartics(*(column[..., which] for column in self))

    def at(self, u: np.ndarray) -> np.ndarray:
        """Return the (…, K) values at u, by Lagrange's formula.

        Points may be far nearer to each other than to the rest: powers of u would lose what tells them apart.
        """
        away = u[..., None, :] - self.nodes
        found = np.zeros(u.shape)
        for j in range(FITTED):
            others = np.arange(FITTED) != j
            found += self.values[j] * (away[..., others, :] / (self.nodes[j] - self.nodes[others])).prod(-2)
        return found


def quartics(position: np.ndarray, value: np.ndarray, triple: np.ndarray) -> Quartics:
    """Return the quartics through (5, K) points, with their lowest points.

    Args:
        position, value: (5, K) the points, by position.
        triple: (3, K) positions of the ends of each bracket and of the lowest point in it; if that is the last
            position of a function it is the upper end as well.
    """
    low, here, high = triple
    unit = np.maximum(here - low, high - here)
    blank = np.zeros(unit.size)
    k = (position == here).argmax(0), np.arange(unit.size)
    found = Quartics((position - here) / unit, value - value[k], unit, blank, blank, blank, blank)
    first, last = (low - here) / unit, (high - here) / unit
    spacing = (last - first) / (len(_SHARES) - 1)
    u = first + (last - first) * _SHARES
    curve = found.at(u)
    middle = np.clip(curve.argmin(0), 1, len(u) - 2)
    before, centre, after = (curve[middle + shift, k[1]] for shift in (-1, 0, 1))
    bend = before - 2 * centre + after
    bent = (bend > 0) & np.isfinite(bend)
    # The vertex of the parabola through the three lowest of them, or the lower end of the three.
    shift = np.where(bent, (before - after) / (2 * np.where(bent, bend, 1.0)), np.sign(before - after))
    lowest = u[middle, k[1]] + np.clip(shift, -1, 1) * spacing
    outwards = np.where((lowest >= last) & (high == here), (curve[-2] - curve[-1]) / (spacing * unit), -np.inf)
    return found._replace(lowest=lowest, gain=-found.at(lowest), bend=bend / (spacing * unit) ** 2, outwards=outwards)
