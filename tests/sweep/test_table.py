"""Some of a table's runs."""

import pytest

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
