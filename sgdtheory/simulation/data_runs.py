"""`simulate_data`: averaged mini-batch SGD on rows of data, drawn with replacement or passed over in random orders."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import settings_arrays, whole_number
from sgdtheory._common.rows import checked_rows
from sgdtheory.simulation.result import Simulation

CALL_ROWS = 4096  # rows of a replica that a call to the device takes, or one batch


class Regression(NamedTuple):
    """Least squares on N rows, in the coordinates u = H^{1/2}(w − ŵ) of the eigenbasis, r of them with λ_i > 0.

    Attributes:
        rows: (N, r) whitened rows z, with Σ z zᵀ/N = 1.
        eigenvalue: (r,) of H = XᵀX/N.
        start: (r, k) u at w = 0, a column a target.
        residual: (N, k) y − ŵᵀx.
    """

    rows: np.ndarray
    eigenvalue: np.ndarray
    start: np.ndarray
    residual: np.ndarray


def simulate_data(
    key: Any,
    features: Any,
    targets: Any,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    num_replicas: int = 32,
    dtype: str = "float32",
    replacement: bool = True,
    population: tuple[ArrayLike, ArrayLike] | None = None,
) -> Simulation:
    """Run averaged mini-batch SGD on rows of data and return the excess risk of each replica.

        w_{t+1} = w_t − (γ/B) Σ_j x_j (x_jᵀw_t − y_j)ᵀ,  w_0 = 0,    w̄ = (1/n) Σ_{t<n} w_t,    n = ⌊D/B⌋

        risk = Σ over targets of (w̄ − ŵ)ᵀ H (w̄ − ŵ),    H = XᵀX/N,    ŵ the least-squares fit of these rows

    The population is the rows themselves: nothing about their law is assumed, which is what the exact theory is held
    against here. For the risk on rows that are held out, see how far ŵ itself is off there; where the law of the rows
    is known, `population` gives the risk under it instead, `(w̄ − w*)ᵀH(w̄ − w*)`.

    Rows are drawn with replacement, or read in passes, `replacement=False`: every ⌊N/B⌋ steps in a new random order, of
    which rows that do not fill a batch are left out (a data loader with shuffle and drop_last).

    Replica r reads the same rows in the same order at every batch size and learning rate: they compare with less noise
    than each has. Rows are rotated to the eigenbasis of H in float64, and increments and sums of a run are compensated,
    so that float32 resolves risks to about 1e-6 of themselves, far below the scatter of replicas. Rows and one batch of
    each replica have to fit into memory.

    Example:
        >>> import jax
        >>> import numpy as np
        >>> import sgdtheory as st
        >>> rng = np.random.default_rng(0)
        >>> features = rng.standard_normal((500, 3)) * [1.0, 0.5, 0.2]
        >>> targets = features @ [[1.0, 0.0], [1.0, 2.0], [0.0, 3.0]] + rng.standard_normal((500, 2))
        >>> data = jax.random.key(0), features, targets
        >>> simulation = st.simulate_data(*data, batch_size=[4, 16], learning_rate=0.2, num_samples=800)
        >>> print(simulation.num_steps, simulation.excess_risk.shape, bool((simulation.mean < 0.5).all()))
        [200  50] (2, 32) True

    Args:
        key: JAX key, `jax.random.key(0)` for example.
        features: (N, d) array or path of a `.npy` file, a row x a sample.
        targets: (N,) or (N, k) array or path, what is predicted; risks of several targets add up.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        learning_rate: γ > 0, in units of 1/λ; scalar or array.
        num_samples: D ≥ B, may exceed N; scalar or array. The three broadcast like NumPy arrays; settings that differ
            in D or γ alone share a run.
        num_replicas: R ≥ 1.
        dtype: "float32" or "float64", of the simulation.
        replacement: whether a row may come again before all others have come; if not, B ≤ N.
        population: H (d, d) and w* (d,) or (d, k) of the law that the rows were drawn from.

    Returns:
        Simulation, with risks (…, R) in units of y²; `inf` where a replica diverged.

    Raises:
        ValueError: an argument outside its range, rows that are not finite or all zero, features and targets of
            different lengths, a population of other dimensions.
    """
    from sgdtheory.simulation.simulator import checked_dtype, key_words

    x, y = checked_rows(features, targets).whole()
    if not x.any():
        raise ValueError("features must not all be 0: there is nothing to learn from; check how they were made")
    dtype = checked_dtype(dtype)
    num_replicas = whole_number("num_replicas", num_replicas, 1)
    batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples)
    if not replacement and batch.max() > len(x):
        raise ValueError(
            f"batch_size must be at most the {len(x)} rows of features where replacement is False, got "
            f"{batch.max():g}; give a smaller one, or replacement=True"
        )
    words, regression = key_words(key), _regression(x, y)
    measured = None if population is None else _measured(x, y, regression, population)
    steps = np.floor_divide(samples, batch).astype(int)
    risks = np.empty((2, *batch.shape, num_replicas))
    for size in np.unique(batch):
        here = batch == size
        rates, of_rate = np.unique(rate[here], return_inverse=True)
        reads, of_read = np.unique(steps[here], return_inverse=True)
        streams = [np.random.default_rng([*words, replica]) for replica in range(num_replicas)]
        orders = [_orders(stream, len(x), int(size), replacement) for stream in streams]
        found = _run(regression, int(size), rates, reads, orders, dtype, measured)
        risks[:, here] = found[:, of_read, of_rate]
    average, last = np.where(np.isfinite(risks), risks, np.inf)
    return Simulation(average, last, steps, dtype)


def _regression(x: np.ndarray, y: np.ndarray) -> Regression:
    """By a QR decomposition: XᵀX itself would lose every λ_i below 1e-16 λ_1."""
    singular, vectors = np.linalg.svd(np.linalg.qr(x, mode="r"), full_matrices=False)[1:]
    kept = singular > singular[0] * max(x.shape) * np.finfo(float).eps
    rows = x @ (vectors[kept].T * (np.sqrt(len(x)) / singular[kept]))
    best = rows.T @ y / len(x)
    return Regression(rows, singular[kept] ** 2 / len(x), -best, y - rows @ best)


class Measure(NamedTuple):
    """A risk that is not that of the rows, `‖root u − centre‖²` summed over targets.

    Attributes:
        root: (m, r).
        centre: (m, k) root times the u of w*, as far as the rows see it.
    """

    root: np.ndarray
    centre: np.ndarray


def _measured(x: np.ndarray, y: np.ndarray, regression: Regression, population: tuple[Any, Any]) -> Measure:
    """Of `H^{1/2}(w − w*)`: w = ŵ + V Λ^{−1/2} u, within the span of the rows."""
    covariance, best = (np.asarray(part, float) for part in population)
    best = best.reshape(len(best), -1) if best.ndim else best
    if covariance.shape != 2 * x.shape[1:] or best.shape != (x.shape[1], y.shape[1]):
        raise ValueError(
            f"population must be a covariance of shape {2 * x.shape[1:]} and weights of shape "
            f"{(x.shape[1], y.shape[1])}, got {covariance.shape} and {best.shape}"
        )
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    back = x.T @ regression.rows / (len(x) * regression.eigenvalue)  # w = ŵ + back u, (d, r)
    return Measure(root @ back, root @ (best + back @ regression.start))


def _orders(stream: np.random.Generator, number: int, size: int, replacement: bool) -> Callable[[int], np.ndarray]:
    """Which rows come next, as a function of how many are asked for."""
    if replacement:
        return lambda count: stream.integers(number, size=count)
    left = np.empty(0, int)

    def passes(count: int) -> np.ndarray:
        nonlocal left
        read = [left]
        while sum(map(len, read)) < count:
            read.append(stream.permutation(number)[: number // size * size])
        drawn = np.concatenate(read)
        left = drawn[count:]
        return drawn[:count]

    return passes


def _run(
    regression: Regression,
    size: int,
    rates: np.ndarray,
    reads: np.ndarray,
    orders: Sequence[Callable[[int], np.ndarray]],
    dtype: str,
    measured: Measure | None,
) -> np.ndarray:
    """(2, E, G, R) risk of average and last iterate at E step counts, of G learning rates at one batch size.

    In units in which λ_1 = 1 and Σ y² of a row is 1 in the mean.
    """
    import jax  # half a second that the exact theory does not need

    from sgdtheory.simulation.data_steps import begin, block_rows, data_risks, iterates, walk_data

    unit = regression.eigenvalue[0]
    scale = float(np.sqrt((regression.start**2).sum() + (regression.residual**2).mean(0).sum())) or 1.0
    parts = regression.rows, regression.eigenvalue / unit, regression.start / scale, regression.residual / scale
    width = block_rows(size)
    blocks = max(1, CALL_ROWS // width)
    with jax.enable_x64(dtype == "float64"), jax.disable_jit(False):
        scaled = Regression(*(jax.device_put(part.astype(dtype)) for part in parts))
        state = begin(scaled, len(rates), len(orders))
        rate, done, risks = (rates * unit).astype(dtype), 0, []
        for read in reads:
            while done < read:
                count = min(blocks * (width // size), int(read) - done)
                drawn = [order(count * size) for order in orders]
                rows = np.zeros((len(orders), (blocks + 1) * width), np.int32)
                rows[:, : count * size] = drawn
                state = walk_data(scaled, rate, state, rows, np.int32(count), np.int32(size), width=width)
                done += count
            if measured is None:
                risks.append([np.asarray(part, float).T for part in data_risks(state, int(read))])
            else:
                both = [np.asarray(part, float) for part in iterates(state, int(read))]
                risks.append([_risk_of(measured, scale * part) / scale**2 for part in both])
    return scale**2 * np.stack(risks, axis=1)


def _risk_of(measured: Measure, state: np.ndarray) -> np.ndarray:
    """(G, R) risk of states (R, r, G, k)."""
    away = np.einsum("mr,argk->gamk", measured.root, state) - measured.centre
    return (away**2).sum((2, 3))
