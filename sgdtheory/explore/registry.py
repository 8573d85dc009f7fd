"""The panels of the page, their jobs and programs: those of the `PANELS` of every module in `panels/`."""

import importlib
import pkgutil

from sgdtheory.explore import panels
from sgdtheory.explore.spec import Job, PanelSpec, Program

_FOUND = [
    spec
    for module in pkgutil.iter_modules(panels.__path__)
    for spec in importlib.import_module(f"{panels.__name__}.{module.name}").PANELS
]
SPECS: dict[str, PanelSpec] = {spec.name: spec for spec in sorted(_FOUND, key=lambda spec: spec.place)}
JOBS: dict[str, Job] = {
    job.name: job for job in sorted((job for spec in _FOUND for job in spec.jobs), key=lambda job: job.turn)
}
PROGRAMS: dict[str, Program] = {name: each for spec in SPECS.values() for name, each in spec.programs.items()}
TITLES = {name: spec.programs[name].title for name, spec in SPECS.items() if name in spec.programs}
SHOWN_IN = {  # Each answer is drawn by these panels.
    answer: [name for name, spec in SPECS.items() if answer in spec.shows]
    for answer in {answer for spec in SPECS.values() for answer in spec.shows}
}
