from .formats.format import AbstractLogFormat as AbstractLogFormat
from .training_log import TrainingLog as TrainingLog
