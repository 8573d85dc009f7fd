"""`AbstractLogFormat`: the two methods of a format of training logs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.training_log import TrainingLog


class AbstractLogFormat(ABC):
    """A format of training logs, your own too: its name, how it is recognized, how it is read.

    A new format is a table of patterns in `consoles.py`, or a file beside this one and a line in the registry. The
    first format of the registry that recognizes a file reads it.

    Attributes:
        name: what users call it, as "Hugging Face trainer state".
        programs: that write it, for the guide's table.
    """

    name: str
    programs: tuple[str, ...] = ()

    @abstractmethod
    def recognizes(self, path: Path, head: str) -> bool:
        """Return whether a file or folder is of this format.

        Args:
            path: file, or folder.
            head: the first 64 KiB of the file's text, uncompressed; "" of folders and binary files.
        """

    @abstractmethod
    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Return the runs in a file or folder, at least one.

        A file may hold rates alone, to be joined with one that holds losses: whether a loss is there is not its
        business. Order, restarts and repeated steps are not either: `TrainingLog.from_series` sees to them.

        Args:
            path: file, or folder.
            names: of columns, as the user gave them; a format whose words are fixed need not look at them.

        Raises:
            ValueError: the file is damaged, or holds no row; the sentence names the place, and what to do.
        """
