"""Sizes of the measurements: for a GPU, and for a rehearsal on a CPU, whose speeds mean nothing."""

from dataclasses import dataclass, field, replace
from typing import Any

from experiments import width_limit
from experiments._lib.network_sweeps import FULL_TEACHER, TEXT, Task
from sgdtheory.simulation import BLOCK_NUMBERS


@dataclass(frozen=True)
class Sizes:
    """Everything that is measured, and for how long.

    Attributes:
        name: "full" or "toy".
        peak_size: rows of the matrices whose product is timed.
        copy_bytes: of the array whose copy is timed.
        agreement_steps, models: of the runs that are compared with the CPU's: steps, name → fields of a network.
        dim, block_numbers, step_batches, simulator_steps: d, d times the replicas, batch sizes, steps simulated.
        widths, depth, context, batches: of the transformers, d_model first; of the batches the first that fits.
        lane_widths, lanes, lane_batch: of the perceptrons that are trained side by side.
        longest, least_seconds: steps of one call of the trainer, seconds of what is timed, at least.
        limit: of the experiment width_limit.
        tasks: of the experiment width_invariance.
        reserve: seconds in which the last checkpoints, fits and figures are written.
        threads: units of runs at once: while one is compiled another runs.
        patience: factor on the seconds that a measurement is thought to take.
    """

    name: str = "full"
    peak_size: int = 8192
    copy_bytes: int = 1 << 30
    agreement_steps: int = 32
    models: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "perceptron": {"input_dim": 32, "width": 128},
            "transformer": {"model": "transformer", "data": "stdlib", "num_heads": 4, "context": 32, "width": 64},
        }
    )
    dim: int = 256
    block_numbers: int = BLOCK_NUMBERS["gpu"]
    step_batches: tuple[int, ...] = (1, 64, 4096)
    simulator_steps: int = 4096
    widths: tuple[int, ...] = (512, 1024, 2048)
    depth: int = 12
    context: int = 512
    batches: tuple[int, ...] = (64, 32, 16, 8)
    lane_widths: tuple[int, ...] = (64, 256, 1024)
    lanes: int = 16
    lane_batch: int = 32
    longest: int = 32
    least_seconds: float = 4.0
    limit: width_limit.Config = field(
        default_factory=lambda: replace(
            width_limit.SCALES["full"], widths=(32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
        )
    )
    tasks: dict[str, Task] = field(
        default_factory=lambda: {
            "teacher": replace(FULL_TEACHER, widths=(128, 256, 512, 1024, 2048, 4096), num_seeds=3),
            "text": replace(TEXT, widths=(128, 256, 512, 1024)),
        }
    )
    reserve: float = 45.0
    threads: int = 4
    patience: float = 1.0


FULL = Sizes()
TOY = Sizes(
    name="toy",
    peak_size=128,
    copy_bytes=1 << 20,
    agreement_steps=8,
    models={"perceptron": {"input_dim": 4, "width": 8, "depth": 1, "averages": ()}},
    dim=16,
    block_numbers=1 << 10,
    simulator_steps=64,
    widths=(16,),
    depth=1,
    context=8,
    batches=(4, 2),
    lane_widths=(8,),
    lanes=4,
    lane_batch=4,
    longest=1,
    least_seconds=0.001,
    limit=width_limit.Config(widths=(8, 16, 32), base_width=8, num_seeds=2, num_steps=16, num_resamples=50),
    tasks={
        "teacher": Task(
            fields={"base_width": 8, "input_dim": 4, "noise_variance": 0.1, "holdout_size": 64, "averages": ()},
            widths=(8, 16),
            batch_sizes=(4, 8, 16),
            log2_rate=-6.0,
            rate_exponent=0.5,
            rate_offsets=(0,),
            num_seeds=2,
            targets=(0.7,),
            plateau_steps=60,
            samples=400,
        ),
        "text": replace(
            TEXT,
            fields=TEXT.fields | {"base_width": 8, "num_heads": 2, "depth": 1, "context": 8, "averages": ()},
            widths=(8,),
            batch_sizes=(2, 4, 8),
            rate_offsets=(0,),
            num_seeds=1,
            targets=(5.4,),
            plateau_steps=4,
            samples=8,
            evaluations=2,
        ),
    },
    reserve=1.0,
    threads=2,
    patience=0.0,
)
