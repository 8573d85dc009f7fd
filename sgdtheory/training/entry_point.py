"""Entry points "module:name" of custom models: found without running code, and imported only for training."""

import contextlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


def split_entry_point(text: Any) -> tuple[str, str]:
    """Return the module and the name in it.

    Raises:
        ValueError: the text is not of the form "module:name".
    """
    module, _, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ValueError(f"entry_point must be module:name, where a Custom model is found, got {text!r}")
    return module, name


def module_file(text: str) -> Path | None:
    """Return the file that holds the module of an entry point, without importing it or its packages.

    A package that changes its own path when it is imported may hold the module elsewhere.

    Returns:
        None if there is no such file.
    """
    top, *rest = split_entry_point(text)[0].split(".")
    spec, name = _top_level(top), top
    for part in rest:
        name = f"{name}.{part}"
        spec = None if spec is None else _below(name, spec.submodule_search_locations or ())
    return None if spec is None or spec.origin is None or not Path(spec.origin).is_file() else Path(spec.origin)


def import_entry_point(text: str, outside: str | Path | None = None) -> Any:
    """Import what an entry point names, a package at a time, each only if its file lies outside a folder.

    Args:
        text: "module:name".
        outside: folder of runs or of a run, which holds data; None: any place goes.

    Raises:
        ValueError: it cannot be imported, or a file that importing it would run lies in the folder.
    """
    module, name = split_entry_point(text)
    if "" not in sys.path and f"{Path.cwd()}" not in sys.path:
        sys.path.append(f"{Path.cwd()}")  # `python` itself would look for a user's module there; a script does not.
    parts = module.split(".")
    try:
        for number in range(1, len(parts) + 1):
            step = ".".join(parts[:number])
            file = _file_to_run(step)
            if file is not None and outside is not None and is_inside(file, outside):
                raise ValueError(
                    f"entry_point {text} would run {file}, which lies in {outside}, a folder of runs: runs are data; "
                    "move your module to another folder"
                )
            importlib.import_module(step)
        return getattr(sys.modules[module], name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"entry_point {text} cannot be imported: {error}") from None


def is_inside(path: str | Path, folder: str | Path) -> bool:
    """Return whether a path lies in a folder: as it is written, or once every symbolic link is followed."""
    written = Path(path).absolute()
    return any(_same(parent, folder) for place in (written, written.resolve()) for parent in (place, *place.parents))


def _same(one: Path, other: str | Path) -> bool:
    """Return whether two paths are the same file or folder: by inode, as spelling, links and mounts may differ."""
    with contextlib.suppress(OSError, ValueError):
        return one.samefile(other)
    return False


def _file_to_run(name: str) -> str | None:
    """Return the file that importing a module runs, once its packages are imported; None if there is no file."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"No module named {name!r}")
    return spec.origin if spec.has_location else None


def _top_level(name: str) -> ModuleSpec | None:
    """Find the spec of a top-level module, which runs no code."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # Some loaded modules have no spec, such as the script that runs.
        return None
    return _below(name, [f"{Path.cwd()}"]) if spec is None else spec


def _below(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """Find the spec of a module in some folders: the first file, else a namespace package of all folders so named."""
    spaces: list[str] = []
    for spec in _specs(name, folders):
        if spec.loader is not None:
            return spec
        spaces += spec.submodule_search_locations or ()
    if not spaces:
        return None
    space = ModuleSpec(name, None)
    space.submodule_search_locations = spaces
    return space


def _specs(name: str, folders: Iterable[str]) -> Iterator[ModuleSpec]:
    for folder in folders:
        finder = pkgutil.get_importer(folder)
        spec = None if finder is None else finder.find_spec(name)
        if spec is not None:
            yield spec
