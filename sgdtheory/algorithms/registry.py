"""The methods, schedules and averages that have a name: flags, help, texts, sliders and tables are made of these.

To add one, write its class in a module of this subpackage, and one line here: its name, its module and class.
docs/how-it-works.md lists what else a name needs.
"""

import importlib


def _found(**kinds: str) -> dict[str, type]:
    """Name → class, of module.Class of this wing; an underscore stands for the hyphen of a name."""
    found = {}
    for name, origin in kinds.items():
        module, kind = origin.split(".")
        found[name.replace("_", "-")] = getattr(importlib.import_module(f"sgdtheory.algorithms.{module}"), kind)
    return found


METHODS = _found(
    sgd="sgd.SGD",
    heavy_ball="momentum.HeavyBall",
    nesterov="momentum.Nesterov",
    schedule_free="schedule_free.ScheduleFree",
    accelerated="accelerated.AcceleratedSGD",
    delayed="delayed.DelayedSGD",
    sign="normalized.SignSGD",
    normalized="normalized.NormalizedSGD",
    adam="adam.Adam",
    lion="lion.Lion",
    muon="muon.Muon",
    local="local_sgd.LocalSGD",
)
SCHEDULES = _found(
    constant="schedules.Constant",
    cosine="schedules.Cosine",
    linear="schedules.Linear",
    wsd="schedules.WSD",
    power="schedules.PowerDecay",
    stages="schedules.Stages",
)
AVERAGES = _found(
    uniform="averages.UniformAverage",
    tail="averages.TailAverage",
    exponential="averages.ExponentialAverage",
    last="averages.LastIterate",
)
KINDS: dict[str, dict[str, type]] = {  # part of an algorithm → name of a kind → its class; the first is the default
    "method": METHODS,
    "schedule": SCHEDULES,
    "batch_schedule": SCHEDULES,
    "average": AVERAGES,
}
