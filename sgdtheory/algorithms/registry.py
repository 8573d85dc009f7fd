"""Registry of named methods, schedules and averages, from which flags, help, texts, sliders and tables are made.

To add one, write its class in a module of this subpackage, and one line here: its name, its module and class.
docs/how-it-works.md lists what else a name needs.
"""

import importlib


def _classes(**kinds: str) -> dict[str, type]:
    """Import each "module.Class" of this subpackage; underscores in names stand for hyphens."""
    classes = {}
    for name, origin in kinds.items():
        module, kind = origin.split(".")
        classes[name.replace("_", "-")] = getattr(importlib.import_module(f"sgdtheory.algorithms.{module}"), kind)
    return classes


METHODS = _classes(
    sgd="sgd.SGD",
    heavy_ball="momentum.HeavyBall",
    nesterov="momentum.Nesterov",
    schedule_free="schedule_free.ScheduleFree",
    accelerated="accelerated.AcceleratedSGD",
    dana="dana.DANA",
    delayed="delayed.DelayedSGD",
    sign="normalized.SignSGD",
    normalized="normalized.NormalizedSGD",
    adam="adam.Adam",
    lion="lion.Lion",
    muon="muon.Muon",
    local="local_sgd.LocalSGD",
)
SCHEDULES = _classes(
    constant="schedules.Constant",
    cosine="schedules.Cosine",
    linear="schedules.Linear",
    wsd="schedules.WSD",
    power="schedules.PowerDecay",
    stages="schedules.Stages",
)
AVERAGES = _classes(
    uniform="averages.UniformAverage",
    tail="averages.TailAverage",
    exponential="averages.ExponentialAverage",
    last="averages.LastIterate",
)
KINDS: dict[str, dict[str, type]] = {  # Each part has named kinds, the default first.
    "method": METHODS,
    "schedule": SCHEDULES,
    "batch_schedule": SCHEDULES,
    "average": AVERAGES,
}
