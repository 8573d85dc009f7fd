"""The models by name: tensors, outputs, loss, and the floating point operations of a step."""

from types import ModuleType

from sgdtheory.training import mlp, transformer
from sgdtheory.training.config import TrainConfig
from sgdtheory.training.tensors import count

MODULES: dict[str, ModuleType] = {"mlp": mlp, "transformer": transformer}


def model(config: TrainConfig) -> ModuleType:
    """Module of `tensors(config)`, `apply(weights, inputs, config)` and `loss(weights, inputs, targets, config)`."""
    return MODULES[config.model]


def operations(config: TrainConfig) -> float:
    """Floating point operations of one training step: six a weight of a matrix and position, and attention's own.

    6 (P_matrices + 2 · depth · context · width) per token; attention counted without the causal half (Chowdhery et al.
    2022, Appendix B). Embeddings are looked up and not counted.
    """
    matrices = {
        name: tensor for name, tensor in model(config).tensors(config).items() if tensor.role in ("hidden", "output")
    }
    if config.model == "mlp":
        matrices["input"] = mlp.tensors(config)["input"]
        return 6.0 * count(matrices) * config.batch_size
    attention = 2 * config.depth * config.context * config.width
    return 6.0 * (count(matrices) + attention) * config.batch_size * config.context
