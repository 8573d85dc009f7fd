"""Recorded verdicts: those of the recorded tables, each with what was measured inside of its interval."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from experiments import (
    ablations,
    averages,
    averaging,
    bounds,
    curves_batch_size,
    delay,
    epochs,
    epochs_networks,
    forecasts,
    learning_rate_transfer,
    local_sgd,
    mlperf,
    model_size,
    momentum,
    muon,
    optimal_exponents,
    optimal_schedule,
    optimizers,
    optimizers_networks,
    ramp_or_decay,
    rate_rule,
    schedules,
    sign_features,
    small_batches,
    trained_features,
    weight_decay,
    width_limit,
)
from experiments._lib import model_size_verdicts, redraw
from experiments._lib.algorithms import Critical
from experiments._lib.model_sizes import Row as ModelRow
from experiments._lib.network_sweeps import Task
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.registry import EXPERIMENTS
from experiments._lib.results import Verdict
from experiments._lib.rows import rows_of
from sgdtheory._common.files import csv_number
from tests.experiments.test_optimal_exponents import judged as of_optimal_exponents

RECORDED = sorted(path.parent.name for path in FOLDER.glob("*/verdicts.json"))


def of_ramps(config: Any, rows: Any) -> list[Verdict]:
    return [
        *(ramp_or_decay._steps_verdict(config, rows, name) for name in config.shapes),
        *(ramp_or_decay._constant_verdict(config, rows, pair, 0.0) for pair in config.exponents),
        *(ramp_or_decay._tuned_verdict(config, rows, pair) for pair in config.exponents),
    ]


def of_averages(config: Any, rows: Any) -> list[Verdict]:
    return [averages._verdict(config, name, averages._cases(config, rows), 0.0) for name in config.names]


def of_schedules(config: Any, rows: Any) -> list[Verdict]:
    return [
        *(schedules._risk_verdict(config, rows, pair, 0.0) for pair in config.exponents),
        *(schedules._critical_verdict(config, rows, pair) for pair in config.critical_exponents),
    ]


def of_ablations(config: Any, rows: Any) -> list[Verdict]:
    ratios = {name: ablations._drawn(config, name, rows).ratio for name in config.comparisons}
    return [ablations._verdict(config, name, ratio, 0.0) for name, ratio in ratios.items()]


def of_model_sizes(config: Any, rows: Any) -> list[Verdict]:
    networks = redraw._tuples(config.networks)  # as they are in JSON
    task = Task(**redraw._tuples(networks.pop("task")))
    own = replace(config, networks=model_size.Networks(task=task, **networks))
    return list(model_size_verdicts.verdicts(own, rows, 0.0))


def of_momentum(config: Any, rows: Any) -> list[Verdict]:
    return [
        momentum._small_batches(config, rows, 0.0),
        *(momentum._raises(config, rows, pair) for pair in config.exponents),
        *(momentum._power(config, rows, pair) for pair in config.exponents),
        momentum._window(config),
    ]


def of_networks(config: Any, rows: Any) -> list[Verdict]:
    return [
        verdict for task in ("teacher", "text") for verdict in optimizers_networks.verdicts_of(config, rows, task, 0.0)
    ]


def of_weight_decay(config: Any, rows: Any) -> list[Verdict]:
    return [weight_decay._verdict(rows, pair, 0.0) for pair in config.exponents]


def timed(judge: Callable[[Any, Any, float], Sequence[Verdict]]) -> Callable[[Any, Any], Sequence[Verdict]]:
    """Return a function that takes the seconds of the run too."""
    return lambda config, rows: judge(config, rows, 0.0)


JUDGES: dict[str, tuple[Any, type | None, Callable[[Any, Any], Sequence[Verdict]]]] = {
    "ablations": (ablations, None, of_ablations),
    "averages": (averages, Critical, of_averages),
    "bounds": (bounds, bounds.Row, timed(bounds.judged)),
    "curves_batch_size": (curves_batch_size, curves_batch_size.Row, timed(curves_batch_size._verdicts)),
    "delay": (delay, delay.Row, delay.verdicts_of),
    "epochs": (epochs, epochs.Row, timed(epochs._verdicts)),
    "epochs_networks": (epochs_networks, epochs_networks.Row, timed(epochs_networks.verdicts_of)),
    "forecasts": (forecasts, forecasts.Row, timed(forecasts._verdicts)),
    "local_sgd": (local_sgd, local_sgd.Row, local_sgd.verdicts_of),
    "model_size": (model_size, ModelRow, of_model_sizes),
    "momentum": (momentum, momentum.Row, of_momentum),
    "muon": (muon, muon.Row, timed(muon._verdicts)),
    "optimal_exponents": (optimal_exponents, optimal_exponents.Row, of_optimal_exponents),
    "optimal_schedule": (optimal_schedule, optimal_schedule.Row, timed(optimal_schedule._verdicts)),
    "optimizers": (optimizers, optimizers.Row, timed(optimizers._verdicts)),
    "optimizers_networks": (optimizers_networks, optimizers_networks.Row, of_networks),
    "ramp_or_decay": (ramp_or_decay, ramp_or_decay.Row, of_ramps),
    "rate_rule": (rate_rule, rate_rule.Row, timed(rate_rule._verdicts)),
    "schedules": (schedules, schedules.Row, of_schedules),
    "sign_features": (sign_features, sign_features.Row, timed(sign_features.judged)),
    "trained_features": (trained_features, trained_features.Row, timed(trained_features.judged)),
    "small_batches": (small_batches, small_batches.Row, timed(small_batches._verdicts)),
    "weight_decay": (weight_decay, weight_decay.Row, of_weight_decay),
}


TRAINED = {"width_limit": width_limit, "learning_rate_transfer": learning_rate_transfer, "averaging": averaging}


def judged(name: str) -> Sequence[Verdict]:
    """The verdicts of a recorded table."""
    recorded = Recorded(FOLDER / name)
    if name in TRAINED:
        return TRAINED[name].judged(recorded.config(TRAINED[name].Config), recorded)
    if name == "mlperf":
        columns = {
            column: np.array(
                [csv_number(row[column]) if column != "benchmark" else row[column] for row in recorded.rows]
            )
            for column in mlperf.UNITS
        }
        return mlperf._verdicts(recorded.config(mlperf.Config), columns, 0.0)
    module, kind, judge = JUDGES[name]
    rows: Any = recorded.rows if kind is None else rows_of(cast(Any, kind), recorded.rows)
    return judge(recorded.config(module.Config), rows)


@pytest.mark.parametrize("name", [*JUDGES, *TRAINED, "mlperf"])
def test_recorded_verdicts_are_those_of_the_recorded_table(name):
    recorded = Recorded(FOLDER / name).verdicts
    found = judged(name)
    assert [each.claim for each in found] == [each["claim"] for each in recorded]
    for one, other in zip(found, recorded, strict=True):
        assert one.verdict == other["verdict"], one.claim
        assert one.statement == other["statement"]
        if isinstance(one.measured, float):
            assert one.measured == pytest.approx(other["measured"], rel=1e-6)  # fits end as rounding has it
        else:
            assert one.measured == other["measured"]


def out_of_its_interval(measured: Any, interval: Any) -> bool:
    """Return whether a measured number, or a text that is one, lies outside its printed interval."""
    try:
        number = float(measured)
    except (TypeError, ValueError):
        return False
    low, high = (np.nan if end is None else end for end in interval or (None, None))  # not finite
    return bool(number < low or number > high)


def test_a_number_outside_of_its_interval_is_seen():
    """Negative control: the score that was printed as a B*."""
    assert out_of_its_interval("1.38", [0.9085, 1.039])
    assert out_of_its_interval(1.38, [0.9085, 1.039])
    assert not out_of_its_interval(0.97, [0.9085, 1.039])
    assert not out_of_its_interval(0.97, [None, None])
    assert not out_of_its_interval("0.91 … 1.04", [0.9085, 1.039])


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_measured_lies_in_its_interval(name):
    for row in Recorded(FOLDER / name).verdicts:
        assert not out_of_its_interval(row["measured"], row["interval"]), row["claim"]


SHORTER = {  # than at quick scale, which `python -m experiments` runs
    "corollary8_simulated": {"num_samples": (1e3, 4e3), "num_replicas": 32, "reference_steps": 256},
    "ratio_law": {"num_replicas": 128},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scaling_laws", "why", "overhead_convention", "model_size", *SHORTER])
def test_what_is_measured_at_quick_scale_lies_in_its_interval(name):
    module = EXPERIMENTS[name].load()
    config = replace(module.SCALES["quick"], **SHORTER.get(name, {}))
    for each in module.run(config).verdicts:
        assert not out_of_its_interval(each.measured, each.interval), each.claim
