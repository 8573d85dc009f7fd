"""`simulate`: from a problem and settings to the risks of replicas."""

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import checked_problem, positive_number, real_array, settings_arrays, whole_number
from sgdtheory.algorithms import Algorithm, Constant, Coordinates, Course, checked_algorithm
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, drawn_sample
from sgdtheory.risk import as_one_pass
from sgdtheory.simulation.result import Simulation, Trajectory, Truncation
from sgdtheory.simulation.runs import LEAST_ROOM, Plan, Resources, make_plan
from sgdtheory.simulation.truncation import Quantity, truncate

SAMPLERS = "sufficient", "explicit"
QUANTITIES = "total", "bias", "variance"
DTYPES = "float32", "float64"
LARGEST_SQUARE = 4096  # directions where a step costs their square
SAMPLE_OPTIONS = {"outputs": 1, "sampler": "sufficient", "law": "gaussian", "quantity": "total", "dim": None}
BYTES_A_DIRECTION = 64.0  # of a replica of one vector
LARGEST_BATCH = {"sufficient": 1e30, "explicit": 2.0**30}


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

    Passes over N samples (`problem.with_samples(N)`, THEORY.md T42) take linear methods and Gaussian rows; without a
    seed every replica has a sample of its own.

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
        outputs: m ≥ 1, for all methods. With several a step costs d(d + m) normals, whatever B.
        sampler: "sufficient" or "explicit".
        law: of the data, for the explicit sampler: "gaussian", "rademacher", "student_t", `StudentT(ν)`,
            `EllipticalT(ν)` (from `sgdtheory.simulation.laws`) or a function `(key, batch_size) -> x` in JAX, of shape
            (batch_size, dim) in the eigenbasis, with `E x xᵀ = diag(λ)` and independent rows. Batches above 256 are
            drawn in slices.
        quantity: "total"; "bias" for runs without label noise (σ = 0); "variance" for runs from w_0 = w*.
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
    _check_choices(sampler=(sampler, SAMPLERS), quantity=(quantity, QUANTITIES))
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

    # compiled even where a user has turned compilation off: a step takes seconds without
    with jax.enable_x64(dtype == "float64"), jax.disable_jit(False), _progress_bar(progress) as report:
        words = key_words(key)
        truncation = None
        if finite:
            setup = _of_sample(problem, words, dtype)
        else:
            truncation = truncate(
                problem, dim, settings, algorithm, num_replicas=num_replicas * outputs, quantity=quantity, dtype=dtype
            )  # the mean over outputs is at best as good as that of as many more replicas
            head = problem if truncation is None else problem.truncated(truncation.dim)
            _check_dim(head, memory_limit, algorithm, outputs, sampler)
            split = random_directions(words, outputs, head.dim or 0)
            setup = _of_population(head, truncation, quantity, dtype, split, _sampler(sampler, law, head, key, outputs))
        named = (
            str(law) if isinstance(law, str) or hasattr(law, "fourth_moment") else "a function"
        )  # without its address
        described = re.sub(" at 0x[0-9a-f]+", "", repr(algorithm))
        rows = setup.source and (setup.source.num_rows, setup.source.replacement, setup.source.shared)
        same = words, settings, num_replicas, setup.spectrum, rows, trajectory, sampler, named, described, memory_limit
        _check_same_call(*same)
        resources = Resources(_devices(devices), memory_limit, report)
        return simulation_of(setup, plan, num_replicas, words, resources, truncation)


class Setup(NamedTuple):
    """What is simulated, in units in which λ_1 = 1 and Σ s_i + σ² = 1.

    Attributes:
        spectrum: the problem, arrays of the dtype to compute in.
        unit: λ_1.
        scale: √(Σ s_i + σ²), the unit of u.
        sampler: of a run, by its course.
        source: of the rows, where they are read from a finite sample.
    """

    spectrum: Any
    unit: float
    scale: float
    sampler: Callable[[Course], Any]
    source: Any = None


def simulation_of(
    setup: Setup,
    plan: Plan,
    num_replicas: int,
    words: np.ndarray,
    resources: Resources,
    truncation: Truncation | None = None,
) -> Simulation:
    """Return the result of the runs of a plan."""
    from sgdtheory.simulation.engine import simulate_runs

    runs = plan.runs(setup.sampler, setup.unit, setup.scale)
    recorder, interrupted = simulate_runs(setup.spectrum, runs, num_replicas, words, resources, setup.source)
    average, last = (setup.scale**2 * plan.gather(runs, risks) for risks in (recorder.average, recorder.last))
    steps = plan.steps.reshape(*plan.shape, -1)
    path = Trajectory(steps[..., :-1], average[..., :-1, :], last[..., :-1, :]) if steps.shape[-1] > 1 else None
    dtype = setup.spectrum.start.dtype.name
    return Simulation(average[..., -1, :], last[..., -1, :], steps[..., -1], dtype, truncation, path, interrupted)


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


def _check_dim(head: AbstractProblem, memory_limit: float, algorithm: Algorithm, outputs: int, sampler: str) -> None:
    """One replica has to fit, and matrices of d × d too."""
    dim = head.dim or 0
    basis = getattr(algorithm.method, "basis", "eigenvectors")
    rotated = basis != "eigenvectors"
    if isinstance(basis, Coordinates) and len(basis.rows) != dim:
        raise ValueError(f"basis must have one row for each of the {dim} directions simulated, got {len(basis.rows)}")
    if dim > LARGEST_SQUARE and (rotated or outputs > 1 and sampler == "sufficient"):
        what = "a random basis" if rotated else "several outputs"
        raise ValueError(f"dim must be at most {LARGEST_SQUARE} for {what}, got {dim}; lower it")
    size = BYTES_A_DIRECTION * dim * outputs * (algorithm.method.vectors + 1) / 2
    if size > max(memory_limit, LEAST_ROOM):
        raise ValueError(
            f"dim must be smaller: one replica of {dim * outputs:.3g} weights takes {size / 1e9:.3g} GB; "
            "lower it or raise memory_limit"
        )


def checked_dtype(dtype: Any) -> str:
    """The name of one of `DTYPES`."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = None
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, got {dtype!r}")
    return name


def _check_same_call(*arguments: Any) -> None:
    """Every process of several makes the same call; other calls would be mixed up without a word."""
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
    """Two uint32 words from a key of any kind."""
    import jax

    try:
        return np.asarray(jax.random.bits(key, (2,), "uint32"))
    except (TypeError, ValueError):
        raise ValueError(f"key must be a JAX key, for example jax.random.key(0), got {key!r}") from None


def random_directions(key: np.ndarray, outputs: int, dim: int) -> np.ndarray:
    """(m, d), of which each column is uniform on the sphere, the same for one (2,) uint32 key.

    The first output's are made positive, by turning an axis of x, so that one output is the ordinary problem.
    """
    drawn = np.random.default_rng([*key.tolist(), outputs]).standard_normal((outputs, dim))
    return drawn / np.linalg.norm(drawn, axis=0) * np.sign(drawn[0])


def scaled(
    eigenvalue: np.ndarray,
    start: np.ndarray,
    noise: float,
    dtype: str,
    sampler: Callable[[Course], Any],
    source: Any = None,
    measure: tuple[np.ndarray, np.ndarray] | None = None,
) -> Setup:
    """Return what is simulated, in its units.

    Args:
        eigenvalue: (d,) λ_i.
        start: (d,) or (m, d) u at the start.
        noise: standard deviation of the label noise of an output.
        dtype: to compute in.
        sampler: of a run, by its course.
        source: of the rows, whose noise is in the units of y.
        measure: root and centre of a risk that is not that of the coordinates, in the units of y.
    """
    from sgdtheory.simulation.dynamics import Measure, Spectrum

    unit = float(eigenvalue.max()) or 1.0
    outputs = len(start) if start.ndim > 1 else 1
    scale = float(np.hypot(np.linalg.norm(start), noise * np.sqrt(outputs))) or 1.0
    size = np.asarray(noise / scale).astype(dtype)
    other = None if measure is None else Measure(measure[0].astype(dtype), (measure[1] / scale).astype(dtype))
    spectrum = Spectrum((eigenvalue / unit).astype(dtype), (start / scale).astype(dtype), size, measure=other)
    return Setup(spectrum, unit, scale, sampler, source and source.in_units(scale))


def _of_population(
    head: AbstractProblem,
    truncation: Truncation | None,
    quantity: Quantity,
    dtype: str,
    split: np.ndarray,
    sampler: Callable[[Course], Any],
) -> Setup:
    """Return the simulation of a problem of which every batch is new.

    What is not simulated is a direction without a gradient for each output, whose noise outputs do not share.
    """
    eigenvalue, signal = (np.asarray(values, dtype=float) for values in head.directions())
    outputs = len(split)
    start = split * np.sqrt(signal)
    if truncation is not None:
        eigenvalue = np.append(eigenvalue, np.zeros(outputs))
        start = np.hstack([start, np.sqrt(truncation.tail_risk / outputs) * np.eye(outputs)])
    start = (start if outputs > 1 else start[0]) * (quantity != "variance")
    noise = 0.0 if quantity == "bias" else float(np.sqrt(head.noise_variance / outputs))
    return scaled(eigenvalue, start, noise, dtype, sampler)


def _of_sample(problem: FiniteSampleProblem, words: np.ndarray, dtype: str) -> Setup:
    """Return the simulation of epochs over a finite sample (THEORY.md T42).

    Replica r of a sample with a seed draws its batches from (key, r); without one it draws its rows from them, too.
    """
    from sgdtheory.simulation.rows import RowSource

    own = problem.seed is None and problem.rows is None
    known = drawn_sample(problem.drawn(0) if own else problem)  # only rows depend on the seed

    def sample(replica: int) -> tuple[np.ndarray, np.ndarray]:
        seed = np.random.SeedSequence([*words.tolist(), 0, replica]).generate_state(1, np.uint64)[0]
        drawn = drawn_sample(problem.drawn(int(seed))) if own else known
        features, noise = (np.concatenate(each) for each in zip(*drawn.rows(), strict=True))
        return np.pad(features / known.scale, [(0, 0), (0, 1)]), noise

    source = RowSource(problem.num_samples, sample, not own, problem.replacement, (*words.tolist(), 1))
    # Directions without an eigenvalue are one more, which keeps its risk; the rows' noise has what they contribute.
    eigenvalue = np.append(known.scale**2, 0.0)
    start = np.append(known.scale * known.start, np.sqrt(known.frozen))
    return scaled(eigenvalue, start, float(np.sqrt(problem.noise_variance)), dtype, source.sampler, source)


def _sampler(sampler: str, law: Any, head: AbstractProblem, key: Any, outputs: int) -> Callable[[Course], Any]:
    """The sampler of a run, by its course."""
    from sgdtheory.simulation.explicit import ROWS, Explicit
    from sgdtheory.simulation.laws import Gaussian, as_law
    from sgdtheory.simulation.methods import largest_batch
    from sgdtheory.simulation.sufficient import Sufficient
    from sgdtheory.simulation.wishart import Wishart

    drawn = as_law(law, np.asarray(head.directions()[0], dtype=float), key)
    if sampler == "sufficient" and drawn != Gaussian():
        raise ValueError(f"law {law!r} needs sampler='explicit': the sufficient sampler is for Gaussian data")

    def of_run(course: Course) -> Any:
        largest = largest_batch(course)
        if largest > LARGEST_BATCH[sampler]:
            raise ValueError(
                f"batch_schedule must keep batch sizes up to {LARGEST_BATCH[sampler]:g} for this sampler, got "
                f"{largest:g}; lower it or batch_size"
            )
        if sampler == "sufficient":
            return Sufficient() if outputs == 1 else Wishart()
        if course.constant_batch:
            return Explicit(drawn, int(largest))
        return Explicit(drawn, min(1 << (int(largest) - 1).bit_length(), ROWS), varying=True)  # few programs

    return of_run


@contextlib.contextmanager
def _progress_bar(wanted: bool | Callable[[float], None]) -> Iterator[Callable[[float], None]]:
    """A function to call with the share of the work that is done."""
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
