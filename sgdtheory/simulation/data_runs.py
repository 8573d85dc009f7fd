"""`simulate_data`: averaged mini-batch SGD on rows of data, drawn with replacement or read in random orders."""

from typing import Any

import numpy as np

from sgdtheory._common.arguments import real_array, settings_arrays, true_or_false, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.rows import checked_rows, singular_directions
from sgdtheory.simulation.result import Simulation
from sgdtheory.simulation.runs import LEAST_ROOM, Resources, make_plan


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

    The population is the rows themselves. Nothing about their law is assumed, so that the exact theory of Gaussian rows
    can be compared with them. On rows that are held out ŵ itself has a risk, which is not part of this one. Where the
    law of the rows is known, `population` gives the risk under it instead, `(w̄ − w*)ᵀH(w̄ − w*)`.

    Rows are drawn with replacement, or with `replacement=False` read in epochs. An epoch of ⌊N/B⌋ steps has a new
    random order, of which the rows that do not fill a batch are left out (a data loader with shuffle and drop_last).

    Replica r reads the same rows in the same order at every batch size and learning rate, so that settings compare with
    less noise than each has. Rows are rotated to the eigenbasis of H in float64, and increments and sums of a run are
    compensated. So float32 resolves risks to about 1e-6 of themselves, far below the scatter of replicas. The rows, and
    a batch of one replica, have to fit into memory.

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
            in D alone share a run.
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
    import jax  # half a second that the exact theory does not need

    from sgdtheory.simulation.engine import simulation_of
    from sgdtheory.simulation.rows import RowSource
    from sgdtheory.simulation.simulator import checked_dtype, key_words
    from sgdtheory.simulation.task import scaled

    x, y = checked_rows(features, targets).whole()
    if not x.any():
        raise ValueError("features must not all be 0: there is nothing to learn from; check how they were made")
    dtype = checked_dtype(dtype)
    num_replicas = whole_number("num_replicas", num_replicas, 1)
    settings = settings_arrays(batch_size, learning_rate, num_samples)
    largest = settings[0].max()
    if not true_or_false("replacement", replacement) and largest > len(x):
        raise ValueError(
            f"batch_size must be at most the {len(x)} rows of features where replacement is False, got "
            f"{largest:g}; give a smaller one, or replacement=True"
        )
    words = key_words(key)
    rows, eigenvalue, start = _whitened(x, y)
    back = x.T @ rows / (len(x) * eigenvalue)  # w = ŵ + back u, (d, r)
    measure = None if population is None else _measured(back, start, population)
    plan = make_plan(dict(zip(("batch_size", "learning_rate", "num_samples"), settings, strict=True)), 0)
    start, residual = start.T, y + rows @ start
    if len(start) == 1:  # without the axis of outputs a step takes fewer operations
        start, residual = start[0], residual[:, 0]
    source = RowSource(len(x), lambda replica: (rows, residual), True, replacement, tuple(words.tolist()))
    noise = float(np.sqrt((residual**2).mean()))
    with jax.enable_x64(dtype == "float64"), jax.disable_jit(False):
        task = scaled(eigenvalue, start, noise, dtype, source.sampler, source, measure)
        resources = Resources(tuple(jax.devices()), LEAST_ROOM, lambda share: None)
        return simulation_of(task, plan, num_replicas, words, resources)


def _whitened(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return N rows and the start in the coordinates u = H^{1/2}(w − ŵ) of the eigenbasis, r of them with λ_i > 0.

    Returns:
        (N, r) whitened rows z, with Σ z zᵀ/N = 1, (r,) eigenvalues of H = XᵀX/N, and (r, k) u at w = 0, a column a
        target. The residuals y − ŵᵀx are then y + uᵀz.
    """
    singular, vectors = singular_directions(x)
    rows = x @ (vectors.T * (np.sqrt(len(x)) / singular))
    return rows, singular**2 / len(x), -(rows.T @ y / len(x))


def _measured(back: np.ndarray, start: np.ndarray, population: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return root (r, m) and centre (k, m), or (m,) of one target, of the risk `‖u root − centre‖²` of a population.

    The risk is `‖H^{1/2}(w − w*)‖²` with w = ŵ + back u, back = V Λ^{−1/2}, within the span of the rows.
    """
    if not (isinstance(population, tuple | list) and len(population) == 2):
        raise ValueError(f"population must be a pair, the covariance H and the weights w*, got {population!r}")
    covariance = real_array("the covariance of population", population[0])
    best = real_array("the weights of population", population[1])
    best = best.reshape(len(best), -1) if best.ndim else best
    square = len(back), len(back)
    weights = len(back), start.shape[1]
    if covariance.shape != square or best.shape != weights:
        raise ValueError(
            f"population must be a covariance of shape {square} and weights of shape {weights}, got "
            f"{covariance.shape} and {best.shape}"
        )
    if not (np.isfinite(covariance).all() and np.isfinite(best).all()):
        raise ValueError("population must be finite, got nan or inf in its covariance or weights")
    values, vectors = np.linalg.eigh(covariance)
    lowest = -1e-8 * np.abs(values).max()  # rounding of a covariance that was computed
    if values[0] < lowest or not np.allclose(covariance, covariance.T, rtol=0, atol=-lowest):
        raise ValueError("population must begin with a symmetric covariance without negative eigenvalues, got another")
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    centre = (root @ (best + back @ start)).T
    return (root @ back).T, centre if len(centre) > 1 else centre[0]
