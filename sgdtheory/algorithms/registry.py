"""The methods, schedules and averages that have a name: flags, help, texts, sliders and tables are made of these.

To add one, write its class in a file of its own, and one line here.
"""

from sgdtheory.algorithms.accelerated import AcceleratedSGD
from sgdtheory.algorithms.averages import ExponentialAverage, LastIterate, TailAverage, UniformAverage
from sgdtheory.algorithms.momentum import HeavyBall, Nesterov
from sgdtheory.algorithms.schedule_free import ScheduleFree
from sgdtheory.algorithms.schedules import WSD, Constant, Cosine, Linear, PowerDecay, Stages
from sgdtheory.algorithms.sgd import SGD

METHODS: dict[str, type] = {
    "sgd": SGD,
    "heavy-ball": HeavyBall,
    "nesterov": Nesterov,
    "schedule-free": ScheduleFree,
    "accelerated": AcceleratedSGD,
}
SCHEDULES: dict[str, type] = {
    "constant": Constant,
    "cosine": Cosine,
    "linear": Linear,
    "wsd": WSD,
    "power": PowerDecay,
    "stages": Stages,
}
AVERAGES: dict[str, type] = {
    "uniform": UniformAverage,
    "tail": TailAverage,
    "exponential": ExponentialAverage,
    "last": LastIterate,
}
KINDS: dict[str, dict[str, type]] = {  # part of an algorithm → name of a kind → its class; the first is the default
    "method": METHODS,
    "schedule": SCHEDULES,
    "batch_schedule": SCHEDULES,
    "average": AVERAGES,
}
