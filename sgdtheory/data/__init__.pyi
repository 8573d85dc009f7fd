from .cross_fit import Spectrum as Spectrum
from .data_critical import DataCriticalBatchSize as DataCriticalBatchSize
from .data_problem import DataProblem as DataProblem
from .data_problem import problem_from_data as problem_from_data
from .exponents import Exponent as Exponent
from .shape import Kurtosis as Kurtosis
