"""Counts of what searches for schedules compute."""

import numpy as np
import pytest

from sgdtheory.optimal.run import Run


@pytest.fixture
def schedules(monkeypatch):
    """Numbers of schedules of SGD whose risks are computed in a test, and of layouts whose samples are counted."""
    numbers = {"risks": 0, "samples": 0}

    def counted(name, kind):
        computed = getattr(Run, name)

        def call(self, *points):
            numbers[kind] += len(np.atleast_2d(points[0]))
            return computed(self, *points)

        monkeypatch.setattr(Run, name, call)

    counted("risk_and_gradient", "risks")
    counted("num_samples", "samples")
    return numbers
