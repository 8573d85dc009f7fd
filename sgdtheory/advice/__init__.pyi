from .batch_size_change import BatchSizeChange as BatchSizeChange
from .batch_size_change import change_batch_size as change_batch_size
from .row import AdviceRow as AdviceRow
from .setup import TrainingSetup as TrainingSetup
