"""The panels of the page: every module here adds those of its `PANELS`."""

import importlib
import pkgutil

from sgdtheory.explore.spec import Job, PanelSpec, Program

_found = [
    spec
    for module in pkgutil.iter_modules(__path__)
    for spec in importlib.import_module(f"{__name__}.{module.name}").PANELS
]
SPECS: dict[str, PanelSpec] = {spec.name: spec for spec in sorted(_found, key=lambda spec: spec.place)}
JOBS: dict[str, Job] = {
    job.name: job for job in sorted((job for spec in _found for job in spec.jobs), key=lambda job: job.turn)
}
PROGRAMS: dict[str, Program] = {name: each for spec in SPECS.values() for name, each in spec.programs.items()}
TITLES = {name: spec.programs[name].title for name, spec in SPECS.items() if name in spec.programs}
