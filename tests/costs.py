"""Bounds of tests that count what a search computes, and measure how far off it is.

Constants of a search trade values for accuracy. A change that worsens one of them fails, also where it improves the
other: the better numbers are then written into the table of the test, and the commit says what they cost. Families of
random functions are so large that on another machine, which rounds otherwise, a few searches change, and sums by less
than these bounds.
"""

MORE_VALUES = 1.01
MORE_ERROR = 1.1
