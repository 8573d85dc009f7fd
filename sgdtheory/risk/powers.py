"""Powers near 1, to all digits."""

from typing import Any

import numpy as np


def one_minus_power(x: np.ndarray, m: Any) -> np.ndarray:
    """1 − (1 − x)^m for x ≥ 0 and whole m ≥ 0, to full relative accuracy; elementwise."""
    small = x < 0.5
    log_q = np.where(small, np.log1p(-np.where(small, x, 0.0)), np.log(np.abs(x - 1)))
    log_power = np.where(m > 0, m * log_q, 0.0)
    odd_negative = (x > 1) & (m % 2 == 1)
    return np.where(odd_negative, 1 + np.exp(log_power), -np.expm1(log_power))
