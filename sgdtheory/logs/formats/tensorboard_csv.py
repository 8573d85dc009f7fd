"""CSV as TensorBoard's page downloads it: the points of one tag of one run."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import stem
from sgdtheory.logs.formats.csv_table import columns_of, header_of
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.table import Table, logs_of_table
from sgdtheory.logs.training_log import TrainingLog

HEADER = ["Wall time", "Step", "Value"]
FILE = re.compile(r"(?:run-)?(?P<run>.*?)-tag-(?P<tag>.*)")  # TensorBoard's page names its files so.


class TensorBoardCsv(AbstractLogFormat):
    """One tag of one run; what it is stands in the file's name alone.

    Several files of one run are joined: `run-NAME-tag-train_loss.csv` and `run-NAME-tag-train_lr.csv`. Files of other
    names are of the run that their folder names, and their own name is the tag's.
    """

    name = "TensorBoard CSV"
    programs = ("TensorBoard: download of a tag as CSV",)

    def recognizes(self, path: Path, head: str) -> bool:
        """Look at the header."""
        return header_of(head) == HEADER

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Return the values as what the tag says, or else as losses."""
        named = FILE.fullmatch(stem(path))
        tag = named["tag"] if named else stem(path)
        run = named["run"].strip("-.") if named else ""
        understood = {key: column for key, column in names.understand([tag]).items() if key not in ("step", "run")}
        remarks = () if understood else (f"its name does not say what {tag!r} is: taken for the loss",)
        (attribute,) = understood or ("loss",)

        def read(numeric: Sequence[str], words: Sequence[str]) -> dict[str, np.ndarray]:  # noqa: ARG001
            cells = columns_of(path, HEADER, ["Step", "Value"])
            return {"Step": cells["Step"], tag: cells["Value"]}

        name = run or path.resolve().parent.name
        counter = names.step if names.step and names.terms(names.step, ["Step"]) else None
        table = Table(name, self.name, ["Step", tag], read, remarks, calls=("Step",))
        known = {} if attribute == "evaluation_loss" else {attribute: tag}
        return logs_of_table(table, ColumnNames(step=counter, **known))
