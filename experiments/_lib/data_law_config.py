"""The config of data_law: networks, teachers, and the grid that is trained."""

from dataclasses import dataclass, field
from typing import Any

from sgdtheory.training import TrainConfig

FIELDS: dict[str, Any] = {
    "width": 32, "base_width": 32, "depth": 1, "activation": "tanh", "input_dim": 24, "noise_variance": 1.0,
    "holdout_size": 2048, "optimizer": "sgd", "averages": (), "uniform_average": True,
}  # fmt: skip
PAIRS = (3.0, 2.0), (1.5, 1.5), (2.0, 3.0), (1.2, 1.8), (1.2, 2.4), (1.0, 3.0), (0.5, 2.0), (0.25, 1.5)


@dataclass(frozen=True)
class Config:
    """Networks, teachers, data sizes, and the grid that is trained.

    Attributes:
        fields: of every run.
        pairs: (a, b) of the teachers.
        num_samples: D, in ratios that are powers of √2, at which risks are read.
        batch_ratio: from one batch size to the next.
        largest_batch: above which there is none.
        num_rates: learning rates at each batch size.
        num_seeds, output_seeds: of the order of the data, where all weights are trained and where the output's alone
            are; initial weights and teacher are those of one seed.
        num_inputs: of which the features' moments are means.
        population: of which those are that the excess risk of a trained output is taken with.
        num_draws: independent sets of them.
        overhead: extra data that defines B*.
        level: of the intervals.
        num_resamples: of the seeds.
        num_orders: random orders of the predictions, the negative control.
        processes: that measure side by side; None: as many as there are cores.
        store: folder that keeps the runs; None: none is kept.
    """

    fields: dict[str, Any] = field(
        default_factory=lambda: FIELDS | {"width": 16, "base_width": 16, "input_dim": 16, "holdout_size": 512}
    )
    pairs: tuple[tuple[float, float], ...] = (PAIRS[0], PAIRS[1], PAIRS[3], PAIRS[5], PAIRS[7])
    num_samples: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    batch_ratio: float = 4.0
    largest_batch: int = 256
    num_rates: int = 8
    num_seeds: int = 6
    output_seeds: int = 12
    num_inputs: int = 2048
    population: int = 1 << 15
    num_draws: int = 2
    overhead: float = 0.2
    level: float = 0.95
    num_resamples: int = 200
    num_orders: int = 2000
    processes: int | None = None
    store: str | None = None

    def run(self, capacity: float, source: float, trained: str) -> TrainConfig:
        """A run of the trainer."""
        changes = {"capacity": capacity, "source": source, "trained": trained, "max_steps": 1}
        return TrainConfig.from_fields({**self.fields, **changes})
