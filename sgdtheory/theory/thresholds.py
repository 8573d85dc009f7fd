"""Where the exact theory changes its way of computing: one table, each entry with why it has its value."""

# Below these a sum over directions is, to rounding error, a polynomial in λ: what `problem.modes` is asked for.
CONTOUR_RESOLVED = 0.5  # nγλ: the sums at the points of the contour, which keep at least |np| ≥ 4 away from their poles
EDGE_RESOLVED = 1e-2  # λ/λ_1: the sum of the stability edge, whose denominators are 1 to this accuracy

FEW_STEPS = 32  # up to here sums over steps are added term by term: as fast as the contour, and exact
LARGEST_REACH = 1e300  # of nγ: beyond it lies the end of the range of a float
NEGLIGIBLE = 45.0  # e^−45 is below rounding error: residues smaller than this times the rest are left out
CANCELLATION = 1e-7  # a sum over the contour this much smaller than its terms has lost all but nine digits
PIECE = 16_000  # numbers in a temporary, 128 kB: smaller ones are reused by the allocator and stay in a core's cache
LARGEST_PLAIN = 1e40  # of nγλ: above, products of six such numbers leave the range of a float and are scaled

NEWTON_TOLERANCE = 1e-15  # relative: a step of the edge's root this small, or downwards, is rounding
MOST_NEWTON_STEPS = 100  # ten are enough

MOST_PLATEAUS = 2**15  # different batch sizes between two knots: above, a ramp is as good as smooth
MOST_TABULATED = 2**16  # steps whose batch sizes are summed one by one
SUM_NODES = 128  # of the Gauss rule for the sum of a ramp with more
GROWTH_TOLERANCE = 1e-13  # of the logarithm of where a root lies between its bounds

# Panels of collocation.
PANEL_VARIATION = 5.0  # of learning rate and batch size within a panel
SHORT_PIECE = 200.0  # steps: shorter smooth pieces are stepped through, as fast
SHORTEST_PANEL = 16.0  # steps: shorter ones are taken
LONG_PANEL = 200.0  # steps: differences by derivatives

COMPILED_FROM = 4096.0  # steps: fewer take less time in NumPy than compiling the loop
TOGETHER = 400.0  # steps: runs that are no longer are stepped through side by side, sooner done than closed forms
MODES_TOGETHER = 5000  # modes times runs side by side: their moments stay in a core's cache
STEPS_AT_ONCE, FEW_AT_ONCE = 4096, 512  # steps whose coefficients are held
STAGE_COST = 200.0  # steps that take as long as a stage in closed form: shorter ones are stepped through
MOST_PIECES = 256  # stages that a ramp of batch sizes is taken apart into: with more, and more steps, it is smooth
MOST_STEPS = 2e6  # that are taken one by one, some seconds
LARGEST_GROWN = 1e4  # times what a run began with: where a closed form begins with more it loses four digits or more
GROWN, GROWN_ERROR = 1e6, 1e-8  # of risks that are so many times what there was; 2e-9 in 2,000 random runs, up to 1e156
MOST_SETTLING = 1e5  # after a kink before panels begin, for what overshoots or grows
PANEL_DECAY = 1.0  # by which exponent all directions may have decayed within a panel
PANEL_RISE = 4.0  # by which exponent the moments may grow within a panel, roughly followed
MOST_DECAY = 45.0  # exponents of decay that are followed: e^−45 of the initial risk is nothing
PANEL_MODES = 800  # modes times panels that are prepared at once: their inverses stay in a core's cache

EDGE_SEARCHED_FROM = 1e-3  # γλ_1, from which the edge of a method is looked for upwards
LARGEST_EDGE = 1e9  # of γλ_1
LARGEST_GAIN = 1e30  # times as far as SGD: what goes farther is unstable
EDGE_TOLERANCE = 1e-12  # relative
MOST_SECTIONS, SECTIONS_TIMES_MODES = 24, 400_000  # of the range in which the edge of a method lies, looked at together
MANY_STEPS = 1e6  # after which a method moves at its final speed
MOST_GROWTH = 800.0  # exponents of growth: e^800 is beyond the range of a float
GROWTH_PROBES = 17  # steps of a piece at which the rate of growth is computed, if there is any
LARGEST_EXPONENT = 709.0  # e^709 is about the largest float
ROUNDED_BELOW_0 = 1e-6  # of what there is at the start: a part this far below 0 has not been rounded, but lost
