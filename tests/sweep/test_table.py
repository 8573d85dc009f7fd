"""Some of a table's runs."""

import pytest

from sgdtheory.sweep import SweepTable
from tests.sweep.test_tuning import power, result, table


def test_runs_are_filtered_by_their_fields():
    runs = table(
        *(result({"iterate": power(9)}, width=w, batch_size=b) for w in (32, 64) for b in (4, 8)),
        result({"iterate": power(9), "0.5": power(9)}, width=32, batch_size=4, parametrization="ntk"),
    )
    assert [config.width for config in runs.where(width=32).configs] == [32, 32, 32]
    assert len(runs.where(width=[32, 64], batch_size=4).results) == 3
    assert [result.config for result in runs.where(averages=(0.5,)).finished] == [runs.configs[-1]]
    assert len(runs.where(parametrization="ntk", target_loss=None).configs) == 1
    with pytest.raises(ValueError, match=r"^where batch_size must be one of 4, 8, got 7$"):
        runs.where(width=64, batch_size=7)
    with pytest.raises(ValueError, match=r"^where must be one of .*, got witdh \(did you mean width\?\)$"):
        runs.where(witdh=7)


def test_columns_of_losses_and_of_steps_to_the_target():
    """A loss of 1 is seen after 16 steps, the average's after 4; others have no target, do not reach it, or go on."""
    curves = {"iterate": power(9), "0.5": power(3)}
    finished = result(curves, target_loss=1.0), result(curves), result(curves, target_loss=0.01)
    configs = [each.config for each in finished]
    unfinished = result(curves, target_loss=1.0, seed=1).config
    columns = SweepTable((*configs, unfinished), (*finished, None)).columns()
    assert columns["outcome"] == [*["steps"] * 3, "unfinished"]
    assert columns["num_steps"] == [64, 64, 64, None]
    assert columns["loss_iterate"] == [9 / 64] * 3 + [None]
    assert columns["steps_iterate"] == [16, None, None, None]
    assert columns["steps_0.5"] == [4, None, None, None]
