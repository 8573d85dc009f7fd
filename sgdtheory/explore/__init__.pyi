from .panels import JOBS as JOBS
from .panels import TITLES as TITLES
from .presets import PRESETS as PRESETS
from .server import make_server as make_server
from .sources import python_source as python_source
from .state import State as State
