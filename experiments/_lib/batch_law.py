"""B* at several D from risks against batch size and data: samples to each D's risk at every B, and E = b + aB."""

import numpy as np

FEWEST_STEPS = 4  # at D of a batch size that is used, and so many times that of one whose risk at D is the target
MOST = 4.0  # samples to the target, over the fewest, up to which a batch size is used
LOWEST = 3  # of the risks at D, whose median is the target: the least one alone would be so by chance
BALANCES = 600  # of b/a that are tried
REACH = 30.0  # of them beyond the batch sizes


def critical_by_law(
    batch: np.ndarray, samples: np.ndarray, risk: np.ndarray, num_samples: np.ndarray, overhead: float
) -> np.ndarray:
    """B* = ω b/a at every D, (M,): least squares of log E = log(b + aB), E(B) samples to the risk that D attain.

    The target is what small batch sizes attain with D samples. E is read from the risk as far as it has fallen, by
    powers between the data that are read. This is T13's B* at B_ref = 0. It uses all batch sizes, the definition
    (T12) two: it is some factor below B* by the definition, and scatters by less.

    Args:
        batch: (K,) batch sizes, increasing.
        samples: (K, J) data that are read of each, increasing.
        risk: (K, J) tuned risk there.
        num_samples: (M,) D.
        overhead: ω.

    Returns:
        (M,); nan where fewer than three batch sizes reach the target, or no plateau is seen.
    """
    fallen = np.minimum.accumulate(np.log(risk), axis=1)
    found = np.full(len(num_samples), np.nan)
    for place, number in enumerate(num_samples):
        at = [np.interp(np.log(number), np.log(row), values) for row, values in zip(samples, fallen, strict=True)]
        small = np.array(at)[batch * FEWEST_STEPS**2 <= number]
        if len(small) < LOWEST:
            continue
        target = float(np.median(np.sort(small)[:LOWEST]))
        data = np.array([_crossing(np.log(row), values, target) for row, values in zip(samples, fallen, strict=True)])
        data = np.where(batch * FEWEST_STEPS <= number, np.exp(data), np.nan)
        used = data <= MOST * np.nanmin(data) if np.isfinite(data).any() else np.zeros(len(batch), bool)
        if used.sum() >= 3:
            found[place] = overhead * balance(batch[used], data[used])
    return found


def balance(batch: np.ndarray, data: np.ndarray) -> float:
    """b/a of E = b + aB by least squares in logs; nan where it lies at an end of what is tried."""
    tried = np.geomspace(batch[0] / REACH, batch[-1] * REACH, BALANCES)
    rest = np.log(data) - np.log1p(batch / tried[:, None])
    squares = ((rest - rest.mean(1, keepdims=True)) ** 2).sum(1)
    best = int(squares.argmin())
    if best in (0, BALANCES - 1):
        return np.nan
    before, here, after = squares[best - 1 : best + 2]
    shift = 0.5 * (before - after) / (before - 2 * here + after)
    return float(tried[best] * (tried[1] / tried[0]) ** shift)


def _crossing(log_samples: np.ndarray, log_risk: np.ndarray, target: float) -> float:
    """Return where a risk that never rises reaches the target; nan if it begins below or ends above it."""
    here = int((log_risk <= target).argmax())
    if log_risk[here] > target or here == 0:
        return np.nan
    share = (log_risk[here - 1] - target) / (log_risk[here - 1] - log_risk[here])
    return float(log_samples[here - 1] + share * (log_samples[here] - log_samples[here - 1]))
