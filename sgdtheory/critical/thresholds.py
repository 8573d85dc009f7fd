"""Every number by which the searches of this wing decide, in one table, each with why it has its value.

Places are positions on the line of `RiskAgainstRate`: log(γ/edge) for small γ.
"""

import numpy as np

# What a problem is asked for: where its modes may begin to merge (see `Problem.modes`).
MEAN_RESOLVED = 1e-3  # nγλ: the risk of the mean of w̄ is a polynomial of low degree in λ below
MOMENTS_RESOLVED = 1e-2  # λ/λ_1: for Σ s λ and Σ λ², polynomials everywhere

# The scan over γ for one B and n.
SCAN_ERROR = 1e-5  # relative, of the risks of a scan: as smooth as they are, its basins are those of the exact risk
RESONANT = 4.0  # n/B: with more steps |q|^n, at most (1 − 4/B)^n, has died out at the edge; with fewer, steps resonate
# of the first places below half the edge: basins are wider, narrower ones are found by halving
SPACING = np.log(10) / 2
SPACING_ABOVE = np.log(100)  # of the first places above it, where Δ hardly changes until steps overshoot
# of the last places where steps resonate: minima are apart by more, n(1 − γ/edge) ≤ 14
FINE_SPACING, FINE_PLACES = 0.3, 9
STEEPEST = 2.0  # slope of log Δ: what lies between two places is taken to be no lower than this allows
FINEST_INTERVAL = 0.3  # an interval this narrow hides no minimum
# Where the mean path swings with γ it is computed at so many places for each step, evenly in √γ, and some in log γ
PLACES_A_STEP, LEAST_PLACES, MOST_PLACES = 12, 200, 800
MANY_ZEROS = 40  # steps: of more, without momentum, little bias is left between two zeros of the mean path
KEPT_SWINGS, MOST_SWINGING = 10.0, 1000.0  # times as many steps where early swings are kept, up to so many
NEARER_PLACES = 17  # and at so many about each of its minima
LEADING = 8  # directions, those with most of the signal
MOST_SWINGS, SWINGS_WITHIN = 6, 2.0  # minima of what is expected that are looked into, and how far above the least
NOISE_FALLS = 0.8  # times the variance: a minimum nearby is no lower
CONTENDING = 2.0  # times STEEPEST: minima that could be the least if slopes were this steep are refined

# The minimum of log Δ in one basin: quartics through five points.
QUARTIC_ERROR = 1e-8  # relative, of their risks: less than what `SETTLED` asks of the quartic
WIDTHS = 0.1, 0.02, 0.004  # between the points: the first is enough but where large steps resonate
ROUGH_WIDTH = 0.3  # where a risk to some 1e-4 will do
NARROW = 16  # steps: of so few the basins may be narrower than that
SETTLED = 3e-8  # of log Δ, between quartic and risk: the place is then known to 1e-5, the least Δ to 1e-9 or better
APART = 0.1  # widths: nearer to one of its points a quartic is not put to the test, unless it is a narrow one
FARTHEST_POINT = 2.5  # widths: a minimum farther from the middle is looked for from there
FARTHEST_STEP = 4.0  # widths: no quartic is trusted beyond
MOST_QUARTICS = 8  # then the bracket is searched by golden sections and parabolas
BASIN = 1.0  # a followed minimum that has moved farther than this has been lost
MINIMUM_TOLERANCES = {"xatol": 1e-10, "xrtol": 0.0, "fatol": 1e-9, "frtol": 0.0}  # of place and log Δ; one is enough

# Numbers of steps.
STEPS_RESOLUTION = 1e-8  # relative: numbers of steps above 1e8 are found to this accuracy
FOLLOWED = np.log(4)  # of n: within this factor of where the best γ was looked for, its basin is followed
FOLLOWED_RESONANT = 0.03  # of log n, where steps resonate and n is as even or odd: basins change places more slowly
EVERY_RESONANT_STEPS = 64  # up to this many, where steps resonate, every n is tried: parity decides there
RIPPLES = 1e-6  # momentum β swings on for n steps with β^n above this: till then n + 1 steps may do worse than n
LOOK_BACK, MOST_LOOKED_BACK = (
    0.7,
    64,
)  # there: down to this share of steps that are enough, or so many fewer, all are tried
MEMORIES = 20.0  # times the length of an average that is no share of n: R_opt may be attained with so many steps
PATTERN = 8  # numbers of steps in a row: overshooting steps tell odd from even, stages and tails longer patterns
GUESSED = np.log(1.1)  # of log n: how far from its guess a number of steps is looked for at first
STEPS_AT_ONCE = 8  # of those: enough for most answers to be among the first
FAR, NO_FALL = 20.0, 1e-4  # times a number of steps, of log Δ: a risk that falls less on the way falls no more
LONGEST_JUMP = 10.0  # of log n in the search for enough steps: the risk may be flat at first

# Batch sizes.
EVERY_BATCH = 400  # up to this many samples every number of steps is tried: as fast as a search
EVERY_FEW_STEPS = 40  # up to this many steps every n is tried: there the least risk is no smooth function of n
SMALLEST_BATCHES = np.arange(1.0, 6.0)  # always tried for R_opt
# n at which ρ is computed first: in general, and where steps resonate
RELAXED_PER_DECADE, RESONANT_PER_DECADE = 1.5, 5.0
ROUGH_FEW_STEPS = 4  # where all is to some 1e-3: up to this many steps every n, since one may be better than two
RELAXED_ROUNDS = 5  # of halving about minima of ρ
RELAXED_NEAR = 0.02  # relative: a minimum of ρ this little above what is attained is looked into, where steps resonate
LEAST_BEND = 1e-9  # of log ρ in log n: a minimum that is flatter is no lower than it looks
TAILS = 4.0  # over φ: so many n in a row have tails of ⌈φn⌉ iterates of both parities, and next to φn or next to φn + 1
MOST_LISTED = 1e5  # batch sizes that are ranked
MOST_TRIED = 64  # batch sizes that are tuned, the most promising of them
BETWEEN = 1000  # numbers of steps at which ρ is interpolated, to guess where it reaches a target
NEAR_CROSSING = 1.2 ** np.array([-1.5, -0.5, 0.5, 1.5])  # times a guess of a number of steps: where to look closely
MOST_GUESSES = 8  # times that numbers of steps are computed there
CROSSED = 1.3  # ratio of two numbers of steps between which there is no need to look
ENOUGH = 0.05  # of a step: so little less than a whole number of steps is that number
LESS_DATA = 0.9  # of the samples, to see what samples are worth

# Rounding.
SAME_RISK = 1e-8  # relative: risks closer than this are not told apart, and no B is preferred to 1 for less
ROUNDING = 1e-12  # relative: (1 + overhead) D is not lowered by a sample through rounding
LEAST_RISK = 1e-300  # so that a risk has a logarithm

# The curve, and what can be asked.
POINTS_PER_DECADE = 4  # of the curve
REACH = 10.0  # the curve goes on to this many times the critical batch size
SMALLEST_OVERHEAD = 1e-6  # a smaller one, or a smaller risk_factor − 1, is read as this on the curve
FALLS = 0.9  # times a B* of fewer samples, or less: a fall that is remarked upon
MOST_SAMPLES = 1e20  # up to here n steps and n + 1 can be told apart well enough for the searches

# Algorithms other than averaged SGD with constant steps.
BEYOND_EDGE = 3.0  # times the stability edge: as far beyond it as peaks of schedules are looked for
ALLOWED_GROWTH = 3.0  # e^3 times the moments on the way are more than any optimum has
JUST_BEYOND = 0.01  # of the edge: where the rate of growth is measured
LARGEST_RISK = 1e9  # of the initial risk: all that diverges is the same
SHAPE_POINTS = 4096  # at which a batch schedule is averaged
LARGEST_BATCH = 1e15  # no noise is left: the largest γ of all
COMPILED_OFTEN = 100.0  # single steps that are compiled rather than taken one by one: searches take them often
