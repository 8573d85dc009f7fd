from .assertion import assert_bound as assert_bound
from .strategies import algorithms as algorithms
from .strategies import problems as problems
from .strategies import settings as settings
