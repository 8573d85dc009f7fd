"""The formats, in the order in which they are asked: a file is read by the first that recognizes it."""

from sgdtheory.logs.formats.consoles import CONSOLES
from sgdtheory.logs.formats.csv_table import CsvTable, WandbHistory
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.hugging_face_console import HuggingFaceConsole
from sgdtheory.logs.formats.json_rows import JsonRows
from sgdtheory.logs.formats.key_values import KeyValues
from sgdtheory.logs.formats.levanter import Levanter
from sgdtheory.logs.formats.megatron import Megatron
from sgdtheory.logs.formats.parquet import Parquet
from sgdtheory.logs.formats.tensorboard import TensorBoard
from sgdtheory.logs.formats.tensorboard_csv import TensorBoardCsv
from sgdtheory.logs.formats.trainer_state import TrainerState
from sgdtheory.logs.formats.wandb_chart import WandbChart

FORMATS: tuple[AbstractLogFormat, ...] = (
    TrainerState(),
    TensorBoard(),
    Megatron(),  # texts of single programs, each by a line that none of the others writes
    *CONSOLES,
    Levanter(),
    HuggingFaceConsole(),
    TensorBoardCsv(),
    WandbChart(),
    WandbHistory(),
    Parquet(),
    JsonRows(),  # any program's, from here on
    KeyValues(),
    CsvTable(),
)
