"""The ablations: which ways of training are compared, on which tasks."""

from dataclasses import replace
from typing import Any, NamedTuple

from experiments._lib.network_sweeps import TEACHER, TEXT


class Comparison(NamedTuple):
    """Two ways of training with the same seeds, data and target.

    Attributes:
        topic: of the paper's ablations.
        task: name of a task.
        words: what runs are, and what they become.
        changes: flat fields of the changed runs.
        before: flat fields of the runs that they are compared with.
        shift: factor 2^shift between the learning rates at which the two grids begin.
        sequences: samples of the others for which one sample of a changed run stands; B counts those of the others.
        coarse: whether the changed runs have every second learning rate.
    """

    topic: str
    task: str
    words: tuple[str, str]
    changes: dict[str, Any]
    before: dict[str, Any] = {}
    shift: int = 0
    sequences: int = 1
    coarse: bool = False

    @property
    def width_ratio(self) -> float:
        """Return the ratio of the changed width to the one before if only the width changes; else 1."""
        return self.changes["width"] / self.before["width"] if "width" in self.before else 1.0


def _adam(topic: str, before: str, after: str, **changes: Any) -> Comparison:
    """A change of the perceptron's training on the teacher."""
    shift = changes.pop("shift", 0)
    return Comparison(topic, "teacher", (before, after), changes, shift=shift)


def _wider(task: str, name: str, before: int, after: int) -> Comparison:
    """A network of two widths under µP."""
    words = f"{name}, width {before}", f"width {after}"
    return Comparison("architecture × width", task, words, {"width": after}, {"width": before})


STEADY = "constant γ"
COMPARISONS: dict[str, Comparison] = {
    "context": Comparison("context length", "text", ("32 bytes", "64 bytes"), {"context": 64}, sequences=2),
    "depth, text": Comparison(
        "depth, width", "text", ("1 block, width 64", "4 blocks, width 32"), {"depth": 4, "width": 32}, {"depth": 1}
    ),
    "depth": _adam("depth, width", "2 layers, width 64", "6 layers, width 32", depth=6, width=32),
    "beta1 0": _adam("momentum", "β₁ = 0.9", "β₁ = 0", beta1=0.0),
    "beta1 0.975": _adam("momentum", "β₁ = 0.9", "β₁ = 0.975", beta1=0.975),
    "beta2 0.9": _adam("β₂", "β₂ = 0.99", "β₂ = 0.9", beta2=0.9),
    "beta2 0.999": _adam("β₂", "β₂ = 0.99", "β₂ = 0.999", beta2=0.999),
    "warm-up": _adam("warm-up", "no warm-up", "warm-up of 15%", warmup=0.15),
    "coarse rates": Comparison("γ × τ grid", "teacher", ("γ by factors of 2", "by factors of 4"), {}, coarse=True),
    "one average": _adam("γ × τ grid", "τ tuned", "τ = 0.9", averages=(0.9,)),
    "no average": _adam("γ × τ grid", "τ tuned", "no average", averages=()),
    "tanh": _adam("activation", "ReLU", "tanh", activation="tanh"),
    "gelu": _adam("activation", "ReLU", "GELU", activation="gelu"),
    "sgd": _adam("optimizer", "Adam", "SGD", optimizer="sgd", shift=4),
    "sgd, momentum": _adam("optimizer", "Adam", "SGD, momentum 0.9", optimizer="sgd", momentum=0.9, shift=1),
    "cosine": _adam("schedule", STEADY, "cosine", schedule="cosine", averages=(), shift=1),
    "wsd": _adam("schedule", STEADY, "WSD, decay 20%", schedule="wsd", decay=0.2, averages=(), shift=1),
    "schedule-free": _adam("schedule", STEADY, "schedule-free", schedule="schedule_free", averages=(), shift=1),
    "perceptron": _wider("teacher", "perceptron", 32, 128),
    "residual": _wider("residual", "residual perceptron", 32, 128),
    "convolutions": _wider("digits", "convolutions", 16, 32),
    "transformer": _wider("text", "transformer", 32, 64),
    "recurrent": _wider("recurrent", "gated recurrence", 32, 64),
}
DECAYING = "cosine", "wsd"  # schedules of which every duration is a run of its own
TEACHER_64 = replace(
    TEACHER, widths=(64,), batch_sizes=(16, 40, 100, 250, 625), num_seeds=6, rate_offsets=(-1, 0, 1), targets=(0.1,)
)
TEXT_64 = replace(TEXT, widths=(64,), batch_sizes=(4, 10, 24, 60, 150), rate_offsets=(-1, 0, 1), targets=(2.6,))
CONVOLUTIONS = {"model": "conv", "data": "digits", "activation": "gelu", "base_width": 16}
DIGITS = replace(
    TEACHER_64,
    fields=CONVOLUTIONS | {"averages": (0.8, 0.9, 0.95, 0.98)},
    widths=(16,),
    batch_sizes=(8, 18, 40, 90, 200),
    log2_rate=-7.0,
    targets=(0.5,),
    samples=8000,
)
RECURRENT = {name: value for name, value in TEXT.fields.items() if name != "num_heads"} | {"model": "recurrent"}
TASKS = {
    "teacher": TEACHER_64,
    "residual": replace(TEACHER_64, fields={**TEACHER.fields, "model": "residual"}),
    "digits": DIGITS,
    "text": TEXT_64,
    "recurrent": replace(TEXT_64, fields=RECURRENT),
}
