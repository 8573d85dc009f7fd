"""The task of a call: the problem in the units of the program, and the samplers of its mini-batches."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Coordinates, Course
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, drawn_sample
from sgdtheory.simulation.dynamics import Sampler, Spectrum
from sgdtheory.simulation.explicit import ROWS, Explicit
from sgdtheory.simulation.laws import Gaussian, as_law
from sgdtheory.simulation.result import Truncation
from sgdtheory.simulation.rows import RowSource
from sgdtheory.simulation.runs import ARRAYS, LARGEST_BATCH, LEAST_ROOM, largest_batch
from sgdtheory.simulation.sufficient import Sufficient
from sgdtheory.simulation.truncation import Quantity
from sgdtheory.simulation.wishart import Wishart

LARGEST_SQUARE = 4096  # A step may cost the square of up to this many directions: 2²⁴ numbers, 64 MB in float32.


class Task(NamedTuple):
    """Problem and samplers of a call, in units in which λ_1 = 1 and Σ s_i + σ² = 1.

    Attributes:
        spectrum: the problem, arrays of the dtype to compute in.
        unit: λ_1.
        scale: √(Σ s_i + σ²), the unit of u.
        sampler: of a run, by its course.
        source: of the rows, whose noise is in the units of y, where they are read from a finite sample.
    """

    spectrum: Spectrum
    unit: float
    scale: float
    sampler: Callable[[Course], Sampler]
    source: RowSource | None = None


def random_directions(key: np.ndarray, outputs: int, dim: int) -> np.ndarray:
    """Return (m, d) numbers, each column uniform on the sphere, the same for one (2,) uint32 key.

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
    source: RowSource | None = None,
    measure: tuple[np.ndarray, np.ndarray] | None = None,
) -> Task:
    """Return the task of a problem, in its units.

    Args:
        eigenvalue: (d,) λ_i.
        start: (d,) or (m, d) u at the start.
        noise: standard deviation of the label noise of an output.
        dtype: to compute in.
        sampler: of a run, by its course.
        source: of the rows, where they are read from a finite sample.
        measure: root and centre of a risk that is not that of the coordinates, in the units of y.
    """
    unit = float(eigenvalue.max()) or 1.0
    outputs = len(start) if start.ndim > 1 else 1
    # In these units float32 overflows only where a run has diverged, whatever the units of λ and y.
    scale = float(np.hypot(np.linalg.norm(start), noise * np.sqrt(outputs))) or 1.0
    size = np.asarray(noise / scale).astype(dtype)
    other = None if measure is None else (measure[0].astype(dtype), (measure[1] / scale).astype(dtype))
    spectrum = Spectrum((eigenvalue / unit).astype(dtype), (start / scale).astype(dtype), size, measure=other)
    return Task(spectrum, unit, scale, sampler, source)


def of_population(
    head: AbstractProblem,
    truncation: Truncation | None,
    quantity: Quantity,
    dtype: str,
    split: np.ndarray,
    sampler: Callable[[Course], Any],
) -> Task:
    """Return the simulation of a problem of which every batch is new.

    What is not simulated is a direction without a gradient for each output, whose noise outputs do not share.
    """
    eigenvalue, signal = (np.asarray(values, dtype=float) for values in head.directions())
    outputs = len(split)
    start = split * np.sqrt(signal)
    if truncation is not None:
        eigenvalue = np.append(eigenvalue, np.zeros(outputs))
        start = np.hstack([start, np.sqrt(truncation.tail_risk / outputs) * np.eye(outputs)])
    # Mean risks are linear in start and noise: runs from w_0 = w* have the variance, those without noise the bias.
    start = (start if outputs > 1 else start[0]) * (quantity != "variance")
    noise = 0.0 if quantity == "bias" else float(np.sqrt(head.noise_variance / outputs))
    return scaled(eigenvalue, start, noise, dtype, sampler)


def of_sample(problem: FiniteSampleProblem, words: np.ndarray, dtype: str) -> Task:
    """Return the simulation of epochs over a finite sample (THEORY.md T42).

    Replica r of a sample with a seed draws its batches from (key, r); without one it draws its rows from them, too.
    """
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


def samplers(sampler: str, law: Any, head: AbstractProblem, key: Any, outputs: int) -> Callable[[Course], Any]:
    """Return the function from a run's course to its sampler."""
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


def check_dim(head: AbstractProblem, memory_limit: float, algorithm: Algorithm, outputs: int, sampler: str) -> None:
    """Refuse a number of directions of which one replica, or a matrix of d × d, does not fit."""
    dim = head.dim or 0
    basis = getattr(algorithm.method, "basis", "eigenvectors")
    rotated = basis != "eigenvectors"
    if isinstance(basis, Coordinates) and len(basis.rows) != dim:
        raise ValueError(f"basis must have one row for each of the {dim} directions simulated, got {len(basis.rows)}")
    if dim > LARGEST_SQUARE and (rotated or outputs > 1 and sampler == "sufficient"):
        what = "a random basis" if rotated else "several outputs"
        raise ValueError(f"dim must be at most {LARGEST_SQUARE} for {what}, got {dim}; lower it")
    size = ARRAYS * 8.0 * dim * outputs * (algorithm.method.vectors + 1) / 2
    if size > max(memory_limit, LEAST_ROOM):
        raise ValueError(
            f"dim must be smaller: one replica of {dim * outputs:.3g} weights takes {size / 1e9:.3g} GB; "
            "lower it or raise memory_limit"
        )
