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
