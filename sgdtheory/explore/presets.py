"""States that show an effect, with a sentence on what to look at."""

from typing import NamedTuple

from sgdtheory.explore.state import State


class Preset(NamedTuple):
    """A state, its name in the list, and a sentence on what to look at."""

    name: str
    sentence: str
    state: State


PRESETS = (
    Preset(
        "b ≤ a: B* does not grow",
        "For $b ≤ a$ the critical batch size does not grow with the data: its exponent is 0.",
        State(capacity=3.0, source=2.0, num_samples=1e6),
    ),
    Preset(
        "a < b ≤ 2a + 1: B* grows",
        "$B^*$ grows like $D^{1 − a/b}$: with more data, larger batches cost nothing. Move $b$ and watch the slope.",
        State(capacity=2.0, source=3.0, num_samples=1e6),
    ),
    Preset(
        "b > 2a + 1: saturation",
        "Beyond $b = 2a + 1$ a larger $b$ no longer helps: the average remembers the start of the run, and the bias "
        "falls like $1/n²$. Move $b$ up from 4: the slope of $B^*$ stays at $1 − a/(2a + 1)$.",
        State(capacity=1.5, source=6.0, num_samples=1e6),
    ),
    Preset(
        "Tail averaging",
        "An average of the last half of the run forgets the start: there is no saturation, and the risk is lower than "
        "with an average of the whole run.",
        State(capacity=1.5, source=6.0, num_samples=1e5, second="tail"),
    ),
    Preset(
        "Resonance",
        "Four steps with a learning rate close to the stability limit: the leading direction overshoots, and its bias "
        "cancels after an even number of steps. Therefore the best batch size is 2500 and not 1. Move $B$: an odd "
        "number of steps does worse.",
        State(capacity=1.2, source=8.0, num_samples=1e4, batch_size=2500),
    ),
    Preset(
        "Model size",
        "The approximation error of $M$ features acts like label noise. Once $M$ is large enough for the data, $B^*$ "
        "no longer depends on it: move $M$.",
        State(capacity=2.0, source=3.0, num_samples=1e6, num_features=16),
    ),
    Preset(
        "Decay against ramp",
        "A learning rate that decays linearly, or a batch size that grows by a factor of eight: both reduce the noise "
        "of the last iterate. The loss curves show which one works better.",
        State(
            capacity=2.0,
            source=3.0,
            num_samples=1e5,
            first="linear last",
            second="batch-schedule=linear batch-final=8 last",
        ),
    ),
    Preset(
        "signSGD: U-shaped risk",
        "Every weight moves by $γ$, however small its gradient. Large batches pay for much longer than with SGD, and "
        "small ones waste data: the risk is U-shaped in $B$.",
        State(capacity=1.5, source=2.0, num_samples=1e4, first="sign linear last", second="linear last"),
    ),
)
