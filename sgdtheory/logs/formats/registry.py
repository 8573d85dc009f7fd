"""The formats, in the order in which they are asked: a file is read by the first that recognizes it."""

from sgdtheory.logs.formats.csv_table import CsvTable, WandbHistory
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.json_rows import JsonRows
from sgdtheory.logs.formats.parquet import Parquet
from sgdtheory.logs.formats.tensorboard import TensorBoard
from sgdtheory.logs.formats.tensorboard_csv import TensorBoardCsv
from sgdtheory.logs.formats.trainer_state import TrainerState
from sgdtheory.logs.formats.wandb_chart import WandbChart

FORMATS: tuple[AbstractLogFormat, ...] = (
    TrainerState(),
    TensorBoard(),
    # texts of single programs here, each strict about what it recognizes
    TensorBoardCsv(),
    WandbChart(),
    WandbHistory(),
    Parquet(),
    JsonRows(),  # any program's, from here on
    CsvTable(),
)
