"""Number of samples that a batch size needs to reach a risk, by searches through the public interface alone."""

import numpy as np

import sgdtheory as st

NEAR = 1e-3  # of log risk: the last step is the line's
MOST = 6
SLOPE = -0.5  # of log risk in log samples, to begin with


def samples_to(problem: st.PowerLaw, algorithm: st.Algorithm, batch: float, samples: float, target: float) -> float:
    """D' with `min_γ R(D', B) = target`: secants in logarithms from D on; nan where they do not settle.

    Steps are whole, and so D' is known to B/D' of itself: the risk counts for ⌊D'/B⌋ B samples.
    """
    places: list[float] = []
    values: list[float] = []
    place = np.log(max(samples, 2 * batch))
    for _ in range(MOST):
        steps = max(np.round(np.exp(place) / batch), 1.0)
        found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=steps * batch, algorithm=algorithm)
        places.append(float(np.log(steps * batch)))
        values.append(float(np.log(found.risk / target)))
        place = _next(places, values)
        if abs(values[-1]) < NEAR or abs(place - places[-1]) < NEAR:
            return float(np.exp(place))
    return np.nan


def _next(places: list[float], values: list[float]) -> float:
    """Return the root of the line through the two values nearest to 0."""
    slope = SLOPE
    order = np.argsort(np.abs(values))
    if len(places) > 1 and places[order[0]] != places[order[1]]:
        between = (values[order[0]] - values[order[1]]) / (places[order[0]] - places[order[1]])
        slope = min(between, SLOPE / 10)
    return places[order[0]] - values[order[0]] / slope
