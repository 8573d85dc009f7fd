"""What one run of a search leaves for the next: where its panels end, their values and their Jacobians.

Runs whose learning rates, batch sizes and numbers of steps differ little have almost the same panels. The next run then
spares the panels that polynomials do not fit, and Newton's method begins next to its solution: a risk of Lion takes
half of the time.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.risk.mean_field.newton_panels import PanelValues

# Runs are similar if their γn and n differ by less than this in log. With 0.3 and 0.7 searches take the same time.
SIMILAR = 0.1


class Piece(NamedTuple):
    """A panel, or single steps without a solution, up to a step."""

    end: float
    solution: PanelValues | None


class SegmentMemory:
    """The pieces of the same segment of the run before, and those of this run.

    Args:
        before: pieces of the run before.
        scale: ratio of the numbers of steps of this run and of that.
    """

    def __init__(self, before: list[Piece], scale: float) -> None:
        self.before = before
        self.scale = scale
        self.pieces: list[Piece] = []

    def next(self, now: float, high: float) -> Piece | None:
        """Return the piece that begins at a step and ends at another one at the latest, None if none is known."""
        if len(self.pieces) >= len(self.before):
            return None
        piece = self.before[len(self.pieces)]
        last = len(self.pieces) + 1 == len(self.before)
        end = high if last else min(float(np.round(piece.end * self.scale)), high)
        return piece._replace(end=end) if end > now else None

    def add(self, piece: Piece) -> None:
        """Record a piece that is done."""
        self.pieces.append(piece)

    def forget(self) -> None:
        """Forget all pieces of the run before that are left."""
        self.before = []


class PanelMemory:
    """The pieces of the last run of a search, segment by segment.

    It belongs to one problem and one algorithm, and to runs one after the other.
    """

    def __init__(self) -> None:
        self.run: tuple[float, float, float] = (np.nan, np.nan, np.nan)
        self.before: list[SegmentMemory] = []
        self.segments: list[SegmentMemory] = []
        self.scale = 1.0

    def begin(self, rate: float, steps: float, modes: float) -> None:
        """Begin a run.

        Args:
            rate: γ.
            steps: n.
            modes: a number that differs between sets of modes.
        """
        last_rate, last_steps, last_modes = self.run
        similar = last_modes == modes and abs(np.log(rate * steps / (last_rate * last_steps))) < SIMILAR
        similar = similar and abs(np.log(steps / last_steps)) < SIMILAR
        self.before = self.segments if similar else []
        self.scale = steps / last_steps
        self.segments = []
        self.run = rate, steps, modes

    def segment(self) -> SegmentMemory:
        """Begin the next segment."""
        index = len(self.segments)
        known = self.before[index].pieces if index < len(self.before) else []
        self.segments.append(SegmentMemory(known, self.scale))
        return self.segments[-1]
