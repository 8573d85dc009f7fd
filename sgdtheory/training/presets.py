"""Presets by name: the paper's transformers (Tables 2 and 5 there), and small models that train on a CPU."""

from typing import Any

from sgdtheory._common.arguments import checked_name
from sgdtheory.training.config import TrainConfig

# The paper's Appendix G, Table 3, has these settings. The learning rate is the one that the paper tuned at 151M.
_PAPER = {
    "model": "transformer",
    "data": "tokens",
    "vocabulary": 50280,
    "context": 512,
    "batch_size": 256,
    "holdout_size": 100 * 64,
    "base_width": 1024,
    "base_num_heads": 16,
    "learning_rate": 3.16e-3,
    "beta1": 0.95,
    "clip_norm": 1.0,
    "warmup": 0.25,
    "averages": (0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995),
    "eval_every": 1000,
    "precision": "bfloat16",
}


def _paper(num_heads: int, depth: int, width: int, max_steps: int) -> dict[str, Any]:
    return _PAPER | {"num_heads": num_heads, "depth": depth, "width": width, "max_steps": max_steps}


_BYTES = {
    "model": "transformer",
    "data": "stdlib",
    "context": 64,
    "batch_size": 16,
    "num_heads": 4,
    "holdout_size": 256,
    "learning_rate": 0.004,
    "beta2": 0.99,
    "clip_norm": 1.0,
    "warmup": 0.1,
    "averages": (0.9, 0.98, 0.995),
    "max_steps": 2000,
}
PRESETS: dict[str, dict[str, Any]] = {
    "teacher": {"width": 128, "depth": 2},
    "bytes": _BYTES | {"width": 64, "depth": 2},
    "bytes-small": _BYTES | {"width": 128, "depth": 4, "context": 128, "max_steps": 5000},
    "85M": _paper(12, 12, 768, 13193),
    "151M": _paper(16, 12, 1024, 23438),
    "302M": _paper(16, 24, 1024, 46875),
    "604M": _paper(16, 12, 2048, 93750),
    "1.2B": _paper(32, 24, 2048, 187500),
    "604M-deep": _paper(16, 48, 1024, 93750),
    "1.2B-deep": _paper(16, 96, 1024, 187500),
    "339M-wide": _paper(24, 12, 1536, 46875),
    "944M-wide": _paper(40, 12, 2560, 187500),
}


def preset(name: str, **changes: Any) -> TrainConfig:
    """Return the config of a preset with some fields changed, `preset("151M", tokens="c4.bin", batch_size=1024)`.

    >>> from sgdtheory.training import preset
    >>> preset("bytes", depth=3).model
    Transformer(depth=3, num_heads=4, base_num_heads=None, attention_kernel='xla')

    Raises:
        ValueError: if there is no such preset; the message lists them.
    """
    return TrainConfig.from_fields(changes, PRESETS[checked_name("preset", name, PRESETS)])
