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


def test_the_useful_range_and_each_number_of_devices():
    batch = 2.0 ** np.arange(4, 10)
    steps = 500 + 3e4 / batch + 500 * 60**2 / batch**2
    law = st.fit_steps_law(batch, steps * [1.01, 0.99, 1.01, 1.0, 0.99, 1.01], optimal_batch_size=True)
    rates = np.array([30.0, 80.0, 120.0, 320.0])
    points = st.fits.MeasuredThroughput([4, 4, 16, 16], [1, 4, 1, 4], [1, 1, 1, 1], rates)
    plan = st.plan(law, points, price=2)
    figure = st.plot.run_plan(plan)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"on 4 devices", "on 16 devices", "useful range, 20%", "smallest useful batch size"} <= set(words)
    four = next(line for line in figure.axes[1].get_lines() if line.get_label() == "on 4 devices")
    size, cost = np.array(four.get_data())
    inside = size >= 16
    rate = np.exp(np.interp(np.log(np.minimum(size / 4, 4)), np.log([1, 4]), np.log([30.0, 80.0])))
    np.testing.assert_allclose(cost[inside], (size * law.predict(size) / rate / 3600 * 4 * 2)[inside], rtol=1e-6)
    check_figure(figure, data=False)
