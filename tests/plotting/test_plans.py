import numpy as np
import pytest

import sgdtheory as st
from tests.figure_checks import check_figure
from tests.plotting.panels import points_of

LAW = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])


@pytest.mark.parametrize("price", [None, 2.5])
def test_choice_deadline_and_marks(price):
    plan = st.plan(LAW, 12, micro_batch=8, price=price, deadline=4)
    figure = st.plot.run_plan(plan, currency="USD", title="a run")
    time, cost = figure.axes
    choice = plan.choice
    (star,) = points_of(time, "*")
    np.testing.assert_allclose(star, [[choice.batch_size, choice.hours]])
    (star,) = points_of(cost, "*")
    np.testing.assert_allclose(star, [[choice.batch_size, choice.device_hours * (price or 1)]])
    assert cost.get_ylabel() == ("cost (USD)" if price else "device-hours")
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "deadline" in words
    assert "95% interval" in words
    check_figure(figure, data=False)


def test_a_law_without_intervals_has_no_band():
    class Curve:
        def predict(self, batch_size):
            return 2000 + 3e6 / np.asarray(batch_size)

    figure = st.plot.run_plan(st.plan(Curve(), 12, batch_sizes=(64, 4096)))
    assert "95% interval" not in [text.get_text() for text in figure.legends[0].get_texts()]
