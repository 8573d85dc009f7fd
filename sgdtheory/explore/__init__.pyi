from .export import export_page as export_page
from .presets import PRESETS as PRESETS
from .registry import JOBS as JOBS
from .registry import TITLES as TITLES
from .server import make_server as make_server
from .sources import python_source as python_source
from .state import State as State
