from .result import Simulation as Simulation
from .result import Trajectory as Trajectory
from .result import Truncation as Truncation
from .simulator import simulate as simulate
