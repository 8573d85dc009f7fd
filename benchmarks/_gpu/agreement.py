"""Does the device compute what the CPU computes? The same simulations and training runs on both, compared.

Both draw the same random bits, so that every replica and every run can be compared by itself. What they may differ by
is rounding: the functions of a device are right to a few u, the largest relative error of rounding (8 are allowed), and
the errors of n steps add up n-fold at most while the risk falls. A tolerance is therefore 8 n u with float32's or
float64's u, and 8 u with that of bfloat16 or of TF32 (to which GPUs round the factors of float32 products unless told
otherwise): weights are float32 there too, and the errors of steps do not add up. What goes wrong with a program moves
losses by far more: in float32 a learning rate that is off by 1% is noticed.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import sgdtheory as st
from benchmarks._gpu.measurement import Measurement
from benchmarks._gpu.sizes import Sizes
from sgdtheory.training import Lanes, TrainConfig

UNITS = {
    "difference": "largest relative difference from the CPU's risks, or losses on the hold-out",
    "tolerance": "that rounding may make",
    "agrees": "1 if the difference is within the tolerance",
}
ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53, "TF32": 2.0**-11, "bfloat16": 2.0**-8}  # u
FEW = 8
REPLICAS = 16
SIMULATIONS = (
    ("averaged SGD", "float32", st.Algorithm()),
    ("averaged SGD", "float64", st.Algorithm()),
    ("momentum, cosine", "float32", st.Algorithm(st.HeavyBall(0.9), st.Cosine())),
)
PRECISIONS = {  # name → precision of the layers, that of JAX's products of float32
    "float32": ("float32", "float32"),
    "TF32": ("float32", "default"),
    "bfloat16": ("bfloat16", "default"),
}


def measurements(sizes: Sizes, device: Any = None) -> list[Measurement]:
    """Simulations and training runs on the device (None: JAX's first) and on the CPU; none if JAX has no CPU."""
    steps, found = sizes.agreement_steps, []
    try:
        pair = device or jax.devices()[0], jax.devices("cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        return []
    for words, dtype, algorithm in SIMULATIONS:
        setting = {"dtype": dtype, "algorithm": algorithm}

        def risks(on: Any, setting: dict[str, Any] = setting) -> np.ndarray:
            return simulated(on, steps, **setting)

        found.append(_measurement(f"simulator, {words}, {dtype}", risks, pair, FEW * steps * ROUNDING[dtype]))
    for name, fields in sizes.models.items():
        for precision, (layers, products) in PRECISIONS.items():
            config = TrainConfig.from_fields({"batch_size": 16, "max_steps": steps, "precision": layers, **fields})

            def losses(on: Any, config: TrainConfig = config, products: str = products) -> np.ndarray:
                return trained(on, config, products)

            tolerance = FEW * ROUNDING[precision] * (steps if precision == "float32" else 1)
            found.append(_measurement(f"{name}, {precision}", losses, pair, tolerance))
    return found


def _measurement(name: str, compute: Any, pair: tuple[Any, Any], tolerance: float) -> Measurement:
    def measure() -> Mapping[str, Any]:
        own, reference = (compute(each) for each in pair)
        difference = float(np.max(np.abs(own / reference - 1)))
        return {"difference": difference, "tolerance": tolerance, "agrees": int(difference <= tolerance)}

    return Measurement(name, 30.0, measure)


def simulated(device: Any, steps: int, *, learning_rate: float = 0.2, **options: Any) -> np.ndarray:
    """(2, 2, R) excess risks of averages and of last iterates at B = 1 and 64."""
    batch = np.array([1.0, 64.0])
    problem = st.PowerLaw(2.0, 3.0, dim=64)
    rates = {"batch_size": batch, "learning_rate": learning_rate * np.array([0.1, 1.0]), "num_samples": steps * batch}
    found = st.simulate(jax.random.key(0), problem, **rates, num_replicas=REPLICAS, devices=[device], **options)
    if found.interrupted:
        raise KeyboardInterrupt
    return np.stack([found.excess_risk, found.last_iterate_risk])


def trained(device: Any, config: TrainConfig, products: str = "float32") -> np.ndarray:
    """Losses on the hold-out, of the iterate and its averages, after all steps."""
    with jax.default_device(device), jax.default_matmul_precision(products):
        lanes = Lanes([config], devices=[device])
        lanes.advance(config.max_steps)
        return lanes.evaluate()


def worst(rows: list[dict[str, Any]]) -> float:
    """Largest difference in units of its tolerance; nan without rows."""
    return max((float(row["difference"]) / float(row["tolerance"]) for row in rows), default=math.nan)
