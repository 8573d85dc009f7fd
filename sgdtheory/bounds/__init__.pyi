from .comparison import Comparison as Comparison
from .comparison import Setting as Setting
from .comparison import compare as compare
from .theorem_7 import RiskBound as RiskBound
from .theorem_7 import covered as covered
from .theorem_7 import theorem7 as theorem7
