"""States that show something, with a sentence on what to look at."""

from typing import NamedTuple

from sgdtheory.explore.state import State


class Preset(NamedTuple):
    """A state, its name in the list, and what to look at."""

    name: str
    sentence: str
    state: State


PRESETS = (
    Preset(
        "b ≤ a: no batch pays",
        "With b ≤ a the critical batch size stays where it is, however much data there is: its exponent is 0.",
        State(capacity=3.0, source=2.0, num_samples=1e6),
    ),
    Preset(
        "a < b ≤ 2a + 1: B* grows",
        "B* grows like D^(1 − a/b): with more data larger batches come for free. Move b and watch the slope.",
        State(capacity=2.0, source=3.0, num_samples=1e6),
    ),
    Preset(
        "b > 2a + 1: saturation",
        "Beyond b = 2a + 1 a larger b helps no more: the average remembers its start, and the bias falls like 1/n². "
        "Move b from 4 up: the slope of B* stays at 1 − a/(2a + 1).",
        State(capacity=1.5, source=6.0, num_samples=1e6),
    ),
    Preset(
        "… and its end: tail averaging",
        "An average of the last half alone forgets the start: the saturation is gone, and the risk falls below that of "
        "the average of all.",
        State(capacity=1.5, source=6.0, num_samples=1e5, second="tail"),
    ),
    Preset(
        "Resonance",
        "Four steps next to the stability edge: the leading direction overshoots, and after an even number its "
        "bias cancels. So the best batch size is 2500 and not 1. Move B: an odd number of steps does worse.",
        State(capacity=1.2, source=8.0, num_samples=1e4, batch_size=2500),
    ),
    Preset(
        "Model size",
        "M features: what they miss acts as label noise. Once M is large enough for the data, B* no longer depends on "
        "it: move M.",
        State(capacity=2.0, source=3.0, num_samples=1e6, num_features=16),
    ),
    Preset(
        "Decay against ramp",
        "A learning rate that decays linearly, and a batch size that grows eight times instead: both quieten the last "
        "iterate. The loss curves say which does it better.",
        State(
            capacity=2.0,
            source=3.0,
            num_samples=1e5,
            first="linear last",
            second="batch-schedule=linear batch-final=8 last",
        ),
    ),
    Preset(
        "signSGD: a least batch size too",
        "Every weight moves by γ, however small its gradient. Large batches pay far longer than with SGD, and small "
        "ones waste data: the risk is U-shaped in B.",
        State(capacity=1.5, source=2.0, num_samples=1e4, first="sign linear last", second="linear last"),
    ),
)
