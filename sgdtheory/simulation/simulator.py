"""`simulate`: from a problem and settings to the risks of replicas."""

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args

import numpy as np

from sgdtheory._common.arguments import checked_problem, positive_number, real_array, settings_arrays, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.algorithms import Algorithm, Constant, checked_algorithm
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem
from sgdtheory.risk import as_one_pass
from sgdtheory.simulation.result import Simulation
from sgdtheory.simulation.runs import LARGEST_BATCH, Resources, make_plan
from sgdtheory.simulation.truncation import Quantity, truncate

SAMPLERS = "sufficient", "explicit"
DTYPES = "float32", "float64"
# These options must have these values for a finite sample of Gaussian rows.
SAMPLE_OPTIONS = {"outputs": 1, "sampler": "sufficient", "law": "gaussian", "quantity": "total", "dim": None}


def simulate(
    key: Any,
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    num_replicas: int,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
    outputs: int = 1,
    sampler: str = "sufficient",
    law: Any = "gaussian",
    quantity: Quantity = "total",
    dim: int | None = None,
    trajectory: int = 0,
    dtype: str = "float32",
    memory_limit: float = 1e9,
    devices: Sequence[Any] | None = None,
    progress: bool | Callable[[float], None] = False,
) -> Simulation:
    """Simulate averaged mini-batch SGD, or any algorithm, and return the excess risk of every replica.

        w_{t+1} = w_t − (γ/B) Σ_j (x_jᵀw_t − y_j) x_j,    w̄ = (1/n) Σ_{t<n} w_t,    n = ⌊D/B⌋

    Any linear method, schedule, batch schedule and average: `algorithm=` (THEORY.md T20, T21); and signSGD, normalized
    SGD, Adam or your own `NonlinearMethod`, with γ in units of the weights (w_0 − w* is √(s_i/λ_i) in each direction),
    and gradients clipped by their norm.

    With `outputs=m` the weights are an m × d matrix W and the labels `y = W* x + ξ` vectors, as in a layer: what `Muon`
    is made for. Risks are summed over outputs, `tr Δ H Δᵀ` with Δ = W − W*, and s_i and σ² are divided among them: in
    direction i, Δ at the start is √(s_i/λ_i) q_i, q_i uniform on the sphere in ℝᵐ (drawn from the key, the same for all
    replicas), and each output's labels have noise σ²/m (THEORY.md T39). So the mean risk of a linear method is the
    same with every m.

    With `sampler="sufficient"` a step costs one chi-square and d normals, whatever B, and has exactly the law of
    mini-batch SGD on Gaussian data (THEORY.md T7). `sampler="explicit"` draws the batch: the reference, and the way
    to other laws of the data. Replica r of the k-th run reads random numbers that depend on (key, k, r, step) alone:
    they are the same on any number of devices and with any memory limit, and so are risks, to rounding. Different
    (B, γ) of a call are different runs; D's share a run, unless what the algorithm does depends on n.

    Replicas are divided among all devices that JAX sees, and among processes after `jax.distributed.initialize`
    (every process makes the same call and gets the same result).

    Epochs over N Gaussian samples (`problem.with_samples(N)`, THEORY.md T42) take linear methods of one worker. Without
    a seed every replica has a sample of its own. The order in which a replica reads its rows depends on the key, its
    number and the batch size alone.

    Example:
        >>> import jax
        >>> import sgdtheory as st
        >>> problem = st.PowerLaw(2.0, 3.0, noise_variance=2.0)
        >>> setting = {"batch_size": 16, "learning_rate": 0.2, "num_samples": 1e3}
        >>> simulation = st.simulate(jax.random.key(0), problem, **setting, num_replicas=256, dim=64)
        >>> print(abs(simulation.z_score(st.excess_risk(problem, **setting).total)) < 5)
        True

    Args:
        key: JAX key, `jax.random.key(0)` for example.
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, whole numbers ≥ 1; scalar or array. The peak, where the algorithm has a batch schedule.
        learning_rate: γ > 0, in units of 1/λ; scalar or array. The peak, where the algorithm has a schedule.
        num_samples: D ≥ B; scalar or array, not decreasing along its last axis. The three broadcast like NumPy
            arrays; settings that differ in D alone are the same run, looked at more than once.
        num_replicas: R ≥ 1.
        algorithm: what is run; by default averaged SGD with constant learning rate and batch size. A method of k
            vectors takes (k + 1)/2 times the memory.
        outputs: number m of outputs, the rows of the weight matrix that muon is for; risks are summed over them. With
            several a step costs d(d + m) normals, whatever B.
        sampler: "sufficient" or "explicit".
        law: of the data, for the explicit sampler: "gaussian", "rademacher", "student_t", `StudentT(ν)`,
            `EllipticalT(ν)` (from `sgdtheory.simulation.laws`) or a function `(key, batch_size) -> x` in JAX, of shape
            (batch_size, dim) in the eigenbasis, with `E x xᵀ = diag(λ)` and independent rows. Batches above 256 are
            drawn in slices.
        quantity: everything ("total"), runs without label noise ("bias"), or runs from the optimum ("variance").
        dim: number of directions to simulate; the others are frozen at their start, as risk and as label noise. None:
            all of them or, of a problem with more than 131072 directions, as few as the standard error of the mean
            allows.
        trajectory: K > 0: risks at K log-spaced step counts too, at every setting; whole numbers, so that small ones
            repeat.
        dtype: "float32" or "float64", of the simulation alone. Float32 resolves risks down to 1e-38 of Σ s_i + σ².
        memory_limit: bytes for the replicas that run at once; at least one per device does. Results or a replica that
            take more than this and than 1 GB are refused.
        devices: JAX devices to use; None: all.
        progress: show a progress bar on standard error, if that is a terminal; or a function that is called with the
            share of the work that is done.

    Returns:
        Simulation. After Ctrl-C it holds what had finished, with `interrupted` set: look at it in a loop over calls.

    Raises:
        ValueError: an argument outside its range, or a `dim` that would shift the mean by more than a tenth of its
            standard error.
    """
    checked_problem(problem)
    algorithm = checked_algorithm(algorithm, linear=False)
    _check_choices(sampler=(sampler, SAMPLERS), quantity=(quantity, get_args(Quantity)))
    dtype = checked_dtype(dtype)
    settings = _settings(batch_size, learning_rate, num_samples, algorithm)
    problem = as_one_pass(problem, settings["num_samples"])
    finite = isinstance(problem, FiniteSampleProblem)
    _check_batches(settings["batch_size"], LARGEST_BATCH["explicit" if finite else sampler])
    plan = make_plan(settings, whole_number("trajectory", trajectory, 0), algorithm)
    num_replicas = whole_number("num_replicas", num_replicas, 1)
    outputs = whole_number("outputs", outputs, 1)
    memory_limit = positive_number("memory_limit", memory_limit)
    dim = None if dim is None else whole_number("dim", dim, 1)
    if finite:
        _check_sample(algorithm, {"outputs": outputs, "sampler": sampler, "law": law, "quantity": quantity, "dim": dim})

    import jax  # half a second that the exact theory does not need

    from sgdtheory.simulation.engine import simulation_of
    from sgdtheory.simulation.task import check_dim, of_population, of_sample, random_directions, samplers

    # compiled even where a user has turned compilation off: a step takes seconds without
    with jax.enable_x64(dtype == "float64"), jax.disable_jit(False), _progress_bar(progress) as report:
        words = key_words(key)
        truncation = None
        if finite:
            task = of_sample(problem, words, dtype)
        else:
            truncation = truncate(
                problem, dim, settings, algorithm, num_replicas=num_replicas * outputs, quantity=quantity, dtype=dtype
            )  # the mean over outputs is at best as good as that of as many more replicas
            head = problem if truncation is None else problem.truncated(truncation.dim)
            check_dim(head, memory_limit, algorithm, outputs, sampler)
            split = random_directions(words, outputs, head.dim or 0)
            task = of_population(head, truncation, quantity, dtype, split, samplers(sampler, law, head, key, outputs))
        named = (
            str(law) if isinstance(law, str) or hasattr(law, "fourth_moment") else "a function"
        )  # without its address
        described = re.sub(" at 0x[0-9a-f]+", "", repr(algorithm))
        rows = task.source and (task.source.num_rows, task.source.replacement, task.source.shared)
        same = words, settings, num_replicas, task.spectrum, rows, trajectory, sampler, named, described, memory_limit
        _check_same_call(*same)
        resources = Resources(_devices(devices), memory_limit, report)
        return simulation_of(task, plan, num_replicas, words, resources, truncation)


def _check_sample(algorithm: Algorithm, options: dict[str, Any]) -> None:
    """Refuse what epochs over a finite sample are not simulated with."""
    if not algorithm.linear or algorithm.method.workers > 1 or algorithm.method.period > 1:
        raise ValueError(
            f"algorithm must be linear in the gradient, of one worker, for a finite sample, got {algorithm.method!r}; "
            "take SGD or a method with momentum"
        )
    for name, value in options.items():
        usual = SAMPLE_OPTIONS[name]
        if value is not usual and value != usual:
            raise ValueError(f"{name} must be left at {usual!r} for a finite sample of Gaussian rows, got {value!r}")


def _check_choices(**choices: tuple[Any, tuple[str, ...]]) -> None:
    for name, (value, known) in choices.items():
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")


def checked_dtype(dtype: Any) -> str:
    """Return the name of one of `DTYPES`."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = None
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, got {dtype!r}")
    return name


def _check_same_call(*arguments: Any) -> None:
    """Check that every process of several makes the same call; others would be mixed up without an error."""
    import jax
    from jax.experimental import multihost_utils

    if jax.process_count() == 1:
        return
    text = repr(jax.tree.map(lambda leaf: leaf.tolist() if isinstance(leaf, np.ndarray) else leaf, arguments))
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)
    digests = multihost_utils.process_allgather(digest)
    other = np.flatnonzero((digests != digests[0]).any(1))
    if other.size:
        raise ValueError(
            f"every process must make the same call: key, problem or settings of process {other[0]} are not those of 0"
        )


def _settings(
    batch_size: ArrayLike, learning_rate: ArrayLike, num_samples: ArrayLike, algorithm: Algorithm
) -> dict[str, np.ndarray]:
    samples = real_array("num_samples", num_samples)
    if samples.ndim:
        falls = np.diff(samples, axis=-1) < 0
        if falls.any():
            where = np.argwhere(falls)[0]
            later = tuple(where[:-1]) + (where[-1] + 1,)
            raise ValueError(
                f"num_samples must not decrease along its last axis, got {samples[later]:g} after "
                f"{samples[tuple(where)]:g}; sort it"
            )
    scheduled = algorithm.batch_schedule != Constant()
    arrays = settings_arrays(batch_size, learning_rate, num_samples, scheduled=scheduled)
    return dict(zip(("batch_size", "learning_rate", "num_samples"), arrays, strict=True))


def _check_batches(batch: np.ndarray, largest: float) -> None:
    large = batch > largest
    if large.any():
        raise ValueError(f"batch_size must be at most {largest:g} for this sampler, got {batch[large].flat[0]:g}")


def _devices(devices: Sequence[Any] | None) -> tuple[Any, ...]:
    import jax

    if devices is None:
        return tuple(jax.devices())
    chosen = tuple(devices) if isinstance(devices, Iterable) else ()
    if not chosen or len(set(chosen)) < len(chosen) or not all(isinstance(device, jax.Device) for device in chosen):
        raise ValueError(f"devices must be a list of different JAX devices, at least one, got {devices!r}")
    return chosen


def key_words(key: Any) -> np.ndarray:
    """Return two uint32 words from a key of any kind."""
    import jax

    try:
        return np.asarray(jax.random.bits(key, (2,), "uint32"))
    except (TypeError, ValueError):
        raise ValueError(f"key must be a JAX key, for example jax.random.key(0), got {key!r}") from None


@contextlib.contextmanager
def _progress_bar(wanted: bool | Callable[[float], None]) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share of the work that is done."""
    if callable(wanted):
        yield wanted
        return
    if not (wanted and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulate", total=1.0)
        yield lambda share: bar.update(task, completed=share)
