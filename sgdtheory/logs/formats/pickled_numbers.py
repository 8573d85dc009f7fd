"""Numbers and choices of a pickled object, read without running it: unpickling runs what its author put into it."""

import pickletools
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

MEMORY = "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"
FROM_MEMORY = "GET", "BINGET", "LONG_BINGET"
CLASS = "GLOBAL"  # The protocol that torch.save writes has this operation before the value of an enumeration.
MOST = 1 << 18  # This many bytes of a pickle are searched; one of training arguments has some 5,000.
UNREADABLE = ValueError, OSError, EOFError, LookupError, RuntimeError, OverflowError, MemoryError, zipfile.BadZipFile
WORDS = {"NEWTRUE": True, "NEWFALSE": False}


def pickled_numbers(path: Path, keys: Collection[str]) -> dict[str, float | str]:
    """Return key → the number, or member of an enumeration, that follows it, as in an object's attributes.

    Args:
        path: file that `torch.save` or `pickle.dump` wrote.
        keys: that are looked for; the first of each counts.

    Returns:
        What was found; nothing where the file is neither.
    """
    found: dict[str, float | str] = {}
    chosen = ""  # key of an enumeration whose value comes next,
    named = False  # or its name, which differs by case alone where this is read
    memory: dict[Any, Any] = {}
    last: Any = None
    try:
        for operation, argument, _ in pickletools.genops(_pickle(path)):
            if operation.name in MEMORY:
                memory[len(memory) if argument is None else argument] = last
                continue
            value = memory.get(argument) if operation.name in FROM_MEMORY else WORDS.get(operation.name, argument)
            if chosen and operation.name == CLASS:  # `getattr(class, name)`, as Python before 3.11.4 wrote a choice
                last = value
                named = True
                continue
            if chosen and isinstance(value, str):
                found.setdefault(chosen, value.lower() if named else value)
            chosen = ""
            named = False
            if isinstance(last, str) and last in keys:
                if operation.name == CLASS:
                    chosen = last
                elif isinstance(value, int | float):
                    found.setdefault(last, value)
            last = value
    except (*UNREADABLE, zlib.error):
        return found
    return found


def _pickle(path: Path) -> bytes:
    """Return the beginning of the pickle itself: torch.save puts it into a zip archive."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return file.read(MOST)
    with zipfile.ZipFile(path) as archive:
        inner = next((name for name in archive.namelist() if name.endswith("data.pkl")), None)
        if inner is None:
            return b""
        with archive.open(inner) as file:
            return file.read(MOST)
