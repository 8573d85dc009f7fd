"""The config of model_size: problems, the plane of model and data sizes, and what counts as agreement."""

from dataclasses import dataclass, field

from experiments._lib.model_sizes import Pair
from experiments._lib.network_sweeps import TEACHER, Task


@dataclass(frozen=True)
class Networks:
    """The networks of `width_invariance`, whose last layers are looked at.

    Attributes:
        task: their fields, widths, smallest batch size and learning rate.
        num_samples: D.
        trained_samples: 0 for features at initialization, and after which training at the smallest batch size.
        num_seeds: of the initial weights and of the data.
        num_inputs: of which the features' moments are means.
    """

    task: Task = field(default_factory=lambda: TEACHER)
    num_samples: tuple[float, ...] = (1000.0, 4000.0, 16_000.0)
    trained_samples: tuple[int, ...] = (0, 4000)
    num_seeds: int = 4
    num_inputs: int = 16_384


@dataclass(frozen=True)
class Config:
    """Problems with b > a, and the plane of model and data sizes.

    Attributes:
        exponents: a and b of each problem.
        model_sizes, num_samples: M and D of the grid, each to be combined with each.
        samples_per_feature: D/M along the lines on which both grow, at every `together` D.
        together: see there.
        notion_samples: D at which the other notions of a critical batch size are set beside B*.
        gaussian_sizes, gaussian_samples: M and D of Gaussian features, in place of the first ones.
        reached: share of B* of all features at which so many Gaussian features are said to do.
        compute: C = M·D of the compute-optimal path, at equal ratios.
        above: M/k* from which on data are the limit.
        below: k*/M from which on the model is.
        tolerance: of ratios that should be 1.
        slope_tolerance: of exponents.
        margin: |slope| of log k* on log width above which a network's k* is said to grow.
        networks: see there.
    """

    exponents: tuple[Pair, ...] = ((2.0, 3.0), (1.5, 3.0), (2.0, 6.0))
    model_sizes: tuple[int, ...] = (
        *(4, 10, 22, 46, 100, 215, 464, 1000, 2154, 4642),
        *(10_000, 21_544, 46_416, 100_000),
    )
    num_samples: tuple[float, ...] = tuple(float(f"{10 ** (k / 2):.4g}") for k in range(6, 21))
    samples_per_feature: tuple[float, ...] = (20.0, 1e3, 1e5)
    together: tuple[float, ...] = tuple(10.0**k for k in range(3, 11))
    notion_samples: float = 1e8
    gaussian_sizes: tuple[int, ...] = (10, 22, 46, 100, 215, 464, 1000, 2154, 4642)
    gaussian_samples: tuple[float, ...] = (1e4, 31_620.0, 1e5, 316_200.0, 1e6)
    reached: float = 0.75
    compute: tuple[float, ...] = tuple(10.0**k for k in range(4, 19, 2))
    above: float = 4.0
    below: float = 10.0
    tolerance: float = 0.05
    slope_tolerance: float = 0.03
    margin: float = 0.2
    networks: Networks = field(default_factory=Networks)
