"""A function of rows that counts them, for tests of Newton's searches."""

import numpy as np

from sgdtheory.optimal.newton import Found


class Counted:
    """A function of rows, within bounds, that counts the rows whose values are asked for."""

    def __init__(self, function, low, high):
        self.function = function
        self.low = low
        self.high = high
        self.number = 0

    def __call__(self, point):
        self.number += len(point)
        inside = np.clip(point, self.low, self.high)
        value, slope = self.function(inside)
        held = (inside <= self.low) & (slope >= 0) | (inside >= self.high) & (slope <= 0)
        return Found(inside, value, slope, held)
