"""Predictions of a law of model size, data and batch size: B* of a model and data, and the best runs of budgets."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Table, between, number


def table_of_best_runs(law: Any, compute: Sequence[float]) -> Table:
    """Return the best model size, data and batch size of a `JointLaw` for each budget C = 6 N D."""
    runs = [law.best_run(each) for each in compute]
    quantities = [Quantity("compute", "compute 6ND", list(compute))]
    labels = {"size": "model size N", "samples": "data D", "batch_size": "batch size B", "loss": "loss"}
    for name, label in labels.items():
        of_runs = [getattr(each, name) for each in runs]
        ends = [each.interval for each in of_runs]
        quantities.append(Quantity(name, label, [each.value for each in of_runs], ends))
    return Table(quantities, "best_runs", "least loss of each budget", f"{law.level:.0%}")


def prediction(law: Any, size: float, samples: float) -> tuple[str, dict[str, Any]]:
    """Return a sentence on the best and the critical batch size that a `JointLaw` predicts, and its numbers."""
    critical = law.critical_batch_size(size, samples)
    best = law.best_batch_size(size, samples)
    settings: dict[str, Any] = {
        "parameters": size,
        "num_samples": samples,
        "best_batch_size": best,
        "critical_batch_size": critical.batch_size,
        "critical_batch_size_interval": critical.interval,
    }
    counted = f"at the best batch size {number(best)}" if best else "vanishing batches need"
    fitted, interval = f"B* = {number(critical.batch_size)}", between(*critical.interval)
    value = f"{fitted} ({interval})"
    if 0 in critical.interval or np.inf in critical.interval:
        # An open interval comes before the law's number, which looks like a measurement by itself.
        value = f"B* is not determined: its {law.level:.0%} interval is {interval}; the law has {fitted}"
    share = f"{critical.convention.overhead:.0%}"
    answer = f"N = {size:.4g}, D = {samples:.4g}: {value}, with {share} more data than {counted}"
    if best:
        low, high = law.loss_interval(size, samples, best)
        settings |= {"loss": float(law.loss(size, samples, best)), "loss_interval": (float(low), float(high))}
        answer += f", where the loss is {number(settings['loss'])} ({between(low, high)})"
    return answer, settings
