"""The experiment on over-trained models: its tables, its laws and its verdicts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import over_training
from experiments._lib.over_trained import (
    CHINCHILLA,
    FREE_TIE,
    IN_SAMPLE,
    LARGEST_QUARTER,
    LARGEST_SIZE,
    OVER_TRAINED,
    SHAPES,
    TIED,
    WARMED_UP,
    WITHOUT_EMBEDDING,
    Losses,
    errors,
    law_of,
    made_by,
    refit,
    resampled,
    rms,
    splits,
    tables,
)
from experiments._lib.over_trained_verdicts import _control, _prediction, _sharpness, _tie
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.rows import rows_of
from experiments.over_training import Config, Row
from tests.figure_checks import check_figure


def grid(alpha, beta, k):
    """Losses of a law without errors, at D/N from 5 to 640."""
    size = np.repeat(np.geomspace(1e7, 3e9, 5), 8)
    samples = size * np.tile(5.0 * 2.0 ** np.arange(8), 5)
    terms = np.array([(size / 1e8) ** -alpha, 1.2 * (samples / 1e10) ** -beta])
    return Losses(size, samples, 1.5 + (terms**k).sum(0) ** (1 / k))


def held_out(table, shape, split):
    out = splits(table)[split]
    return rms(errors(law_of(shape, table, out), table, np.flatnonzero(out)))


def test_tables_have_the_runs_of_their_sources():
    found = tables()
    assert {name: table.size.size for name, table in found.items()} == {
        "C4": 34,
        "RedPajama": 35,
        "RefinedWeb": 35,
        "Gemstones, cooled down": 199,
        "Gemstones, constant rate": 220,
    }
    ratios = np.concatenate([table.samples / table.size for table in found.values()])
    assert (ratios.min(), ratios.max()) == pytest.approx((5, 2274), rel=0.01)
    assert [table.size.size for table in tables(WARMED_UP).values()] == [32, 33, 33]
    changed = tables(WITHOUT_EMBEDDING)
    assert all((changed[name].size < found[name].size).all() for name in changed)


def test_splits():
    table = tables()["Gemstones, cooled down"]
    found = splits(table)
    assert not found[IN_SAMPLE].any()
    assert np.unique(table.size[found[LARGEST_SIZE]]).size == 1
    assert np.unique(table.size[found[LARGEST_QUARTER]]).size == 5
    assert (table.samples / table.size)[found[OVER_TRAINED]].min() > 100
    assert LARGEST_QUARTER not in splits(tables()["C4"])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_law_finds_its_own_losses(shape):
    alpha, tied = 0.3, 0.3 / 1.3
    k = 1.0 if shape.name in ("Chinchilla", "tied sum") else 2.5
    law = law_of(shape, grid(alpha, tied, k), np.zeros(40, dtype=bool))
    assert law.squares < 1e-10
    assert over_training._exponents(law)[:3] == pytest.approx((alpha, tied, 1), rel=1e-2)


def test_each_law_predicts_its_own_losses_better():
    """Negative control: losses of Chinchilla's law with other exponents are not predicted by the tied law."""
    own, other = grid(0.3, 0.3 / 1.3, 2.5), grid(0.3, 0.5, 1.0)
    for split in (LARGEST_SIZE, OVER_TRAINED):
        assert held_out(own, TIED, split) < 0.001 < held_out(own, CHINCHILLA, split)
        assert held_out(other, CHINCHILLA, split) < 0.001 < held_out(other, TIED, split)


def test_resampling_keeps_sizes_whole():
    table = grid(0.3, 0.3, 2.5)
    out = splits(table)[OVER_TRAINED]
    for kept, left in resampled(table, out, 5, 0):
        assert not out[kept].any()
        assert out[left].all()
        counts = [(table.size[kept] == size).sum() for size in np.unique(table.size)]
        assert np.unique(np.array(counts) % (~out).reshape(5, 8).sum(1)[0]).tolist() == [0]
        assert np.count_nonzero(counts) >= 3
    for kept, left in resampled(table, splits(table)[LARGEST_SIZE], 3, 0):
        assert set(table.size[left]) == {table.size.max()}
        assert table.size.max() not in table.size[kept]


def test_made_losses_flip_whole_sizes():
    table = grid(0.3, 0.3, 2.5)
    law = law_of(CHINCHILLA, table, np.zeros(40, dtype=bool))
    rest = np.log(table.loss / law.loss(table.settings))
    (made,) = made_by(law, table, 1, 3)
    signs = (np.log(made.loss / law.loss(table.settings)) / rest).reshape(5, 8)
    assert np.allclose(signs, signs[:, :1])
    assert set(signs[:, 0].round()) == {-1, 1}


def test_refits_find_the_same_law():
    table = tables()["C4"]
    law = law_of(FREE_TIE, table, np.zeros(34, dtype=bool))
    again = refit(law, table, np.arange(34))
    assert again.exponents == pytest.approx(law.exponents, rel=1e-3)


ROW = SimpleNamespace(table="t", split=OVER_TRAINED, law=TIED.name, runs=9, error=0.02, made_share=0.0, p_value=0.5)


def row(**values):
    return SimpleNamespace(**{**vars(ROW), **values})


def test_verdicts():
    config = Config()
    for low, high, wanted in ((0.5, 0.9, "holds"), (0.5, 1.1, "inconclusive"), (1.1, 1.4, "fails")):
        made = row(ratio=0.8, ratio_low=low, ratio_high=high)
        assert _prediction(config, made, 0.0).verdict == wanted
    for low, high, p, wanted in (
        (0.9, 1.3, 0.5, "holds"),
        (0.9, 1.3, 0.01, "inconclusive"),
        (0.4, 1.3, 0.5, "inconclusive"),
        (1.1, 1.3, 0.5, "fails"),
    ):
        assert _tie(config, row(tie=1.1, tie_low=low, tie_high=high, p_value=p)).verdict == wanted
    for low, high, wanted in ((2.0, 3.0, "holds"), (1.0, 3.0, "inconclusive"), (2.6, 3.0, "fails")):
        made = row(sharpness=2.7, sharpness_low=low, sharpness_high=high)
        assert _sharpness(config, made).verdict == wanted
    assert _control(config, [row(made_ratio=1.0), row(made_ratio=1.2)]).verdict == "holds"
    assert _control(config, [row(made_ratio=0.9), row(made_ratio=1.2)]).verdict == "fails"


def test_recorded_rows_are_those_of_the_tables():
    """The errors of three recorded fits come out again."""
    rows = rows_of(Row, Recorded(FOLDER / "over_training").rows)
    for each in [row for row in rows if row.table == "C4" and row.variant == "none" and row.split == OVER_TRAINED][:3]:
        shape = next(shape for shape in SHAPES if shape.name == each.law)
        assert held_out(tables()["C4"], shape, OVER_TRAINED) == pytest.approx(each.error, rel=1e-3)


def test_figure():
    found = Recorded(FOLDER / "over_training")
    (figure,) = over_training.redraw(found.config(Config), found).values()
    check_figure(figure, data=False)


@pytest.mark.slow
def test_run():
    config = replace(over_training.SCALES["quick"], only=("C4",), draws=2, made=2)
    result = over_training.run(config)
    assert len(result.columns["table"]) == 3 * len(SHAPES)
    assert len(result.verdicts) == 2 + 1 + 2 + 3
