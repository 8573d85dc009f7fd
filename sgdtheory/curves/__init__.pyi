from .curves_fit import BestSchedule as BestSchedule
from .curves_fit import CurvesCriticalBatchSize as CurvesCriticalBatchSize
from .curves_fit import CurvesFit as CurvesFit
from .curves_fit import LossPrediction as LossPrediction
from .loss_curve import LossCurve as LossCurve
from .loss_curve import example_loss_curves as example_loss_curves
from .loss_curve import read_loss_curves as read_loss_curves
from .theory_fit import fit_loss_curves as fit_loss_curves
