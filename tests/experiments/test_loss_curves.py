"""The experiment on loss curves of language models."""

import pytest

import sgdtheory as st
from experiments import loss_curves
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.rows import rows_of
from tests.figure_checks import check_figure


def recorded():
    return rows_of(loss_curves.Row, Recorded(FOLDER / "loss_curves").rows)


def recorded_config():
    return Recorded(FOLDER / "loss_curves").config(loss_curves.Config)


def test_every_law_is_recorded_for_every_model():
    laws = {(row.model, row.law) for row in recorded() if row.quantity == "r_square"}
    named = [*loss_curves.OTHERS, loss_curves.CONSTANT_NORM, loss_curves.THEORY]
    assert laws == {(model, law) for model in recorded_config().models for law in named}


@pytest.mark.slow
def test_recorded_numbers_are_those_of_the_fit():
    """Held-out curves of one model, computed again."""
    curves = st.example_loss_curves("25M")
    found = st.fit_loss_curves([curves[name] for name in loss_curves.FITTED], weight_decay=0.1, optimizer="sgd")
    rows = [row for row in recorded() if (row.model, row.law, row.weight_decay) == ("25M", loss_curves.THEORY, 0.1)]
    squares = {row.name: row.value for row in rows if row.quantity == "r_square"}
    for name, curve in curves.items():
        left = ((found.predict_curve(curve).loss - curve.loss) ** 2).sum()
        assert 1 - left / ((curve.loss - curve.loss.mean()) ** 2).sum() == pytest.approx(squares[name], abs=1e-4)


def test_verdicts():
    """As recorded, R² needs the assumed weight decay and the largest error is better at 400M alone; both can differ."""
    rows, config = recorded(), recorded_config()
    found = [each.verdict for each in loss_curves._verdicts(config, rows, 0.0)]
    assert found == ["inconclusive", "fails"] * 2 + ["inconclusive", "holds"]
    worse = [row._replace(value=0.998) if row.quantity == "r_square" else row for row in rows]
    assert loss_curves._verdicts(config, worse, 0.0)[0].verdict == "fails"
    better = [
        row._replace(value={"largest": 0.004, "r_square": 0.9995}[row.quantity])
        if row.quantity in ("largest", "r_square")
        else row
        for row in rows
    ]
    assert [each.verdict for each in loss_curves._verdicts(config, better, 0.0)] == ["holds", "holds"] * 3


def test_figure():
    check_figure(loss_curves._figure(recorded_config(), recorded()))
