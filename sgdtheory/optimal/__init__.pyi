from .frontier import Frontier as Frontier
from .frontier import Pareto as Pareto
from .frontier import pareto as pareto
from .named import NamedSchedule as NamedSchedule
from .named import named_schedules as named_schedules
from .schedule import KnotShape as KnotShape
from .schedule import OptimalSchedule as OptimalSchedule
from .schedule import optimal_schedule as optimal_schedule
