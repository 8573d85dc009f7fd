"""The version of the package: of the clone that it lies in, or of the installed distribution."""

import tomllib
from importlib import metadata
from pathlib import Path

NAME = "sgdtheory"


def version() -> str:
    """Return the version that `pyproject.toml` beside the package has or, without that file, that pip has recorded."""
    try:
        project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        project = {}
    return project["version"] if project.get("name") == NAME else metadata.version(NAME)
