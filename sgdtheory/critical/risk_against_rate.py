"""The exact risk as a function of γ on the stable range: all of its basins, and the minimum of each."""

from functools import partial

import numpy as np
from scipy import special
from scipy.optimize import elementwise

from sgdtheory.critical.swings import LEAST_RISK, RiskOf, Swings, SwingSearch

# The scan over γ for one B and n. Places are positions on the line of `RiskAgainstRate`: log(γ/edge) for small γ.
SCAN_ERROR = 1e-5  # relative, of the risks of a scan: as smooth as they are, its basins are those of the exact risk
RESONANT = 4.0  # n/B: with more steps |q|^n, at most (1 − 4/B)^n, has died out at the edge; with fewer, steps resonate
# of the first places below half the edge: basins are wider, narrower ones are found by halving
SPACING = np.log(10) / 2
SPACING_ABOVE = np.log(100)  # of the first places above it, where Δ hardly changes until steps overshoot
SPACING_SWINGING = np.log(3)  # and where what does not swing has to be known between them
# of the last places where steps resonate: minima are apart by more, n(1 − γ/edge) ≤ 14
FINE_SPACING = 0.3
FINE_PLACES = 9
STEEPEST = 2.0  # slope of log Δ: what lies between two places is taken to be no lower than this allows
# The same where γ goes on until runs diverge: there the risk rises by orders of magnitude within a factor of γ. With 2,
# two of 800 random runs of schedule-free SGD missed a minimum, by 1.3% and 1.5%; 5 finds both and takes 1.4 times as
# long.
STEEPEST_DIVERGING = 5.0
FINEST_INTERVAL = 0.3  # an interval this narrow hides no minimum
MOST_PIECES = 4  # into which a wider one is cut at once
NOISE_FALLS = 0.8  # times the variance: a minimum nearby is no lower
SWING_ROUNDS = 4  # of looking where the mean path makes minima
CONTENDING = 2.0  # times STEEPEST: minima that could be the least if slopes were this steep are refined

# The minimum of log Δ in one basin: quartics through five points.
QUARTIC_ERROR = 1e-8  # relative, of their risks: less than what `SETTLED` asks of the quartic
WIDTHS = 0.1, 0.02, 0.004  # between the points: the first is enough but where large steps resonate
ROUGH_WIDTH = 0.3  # where a risk to some 1e-4 will do
# between quartic and risk, of log Δ: the place is then known to 1e-5, the least Δ to 1e-9 or better; more, of the bend
# over a width, where the minimum is so sharp that it is known as well, but not much more
SETTLED = 3e-8
SETTLED_OF_BEND = 3e-5
MOST_UNSETTLED = 2e-7
DOUBTFUL = 1e-6  # up to here what is between them may be the error of the risks of the quartic: of panels it is 1e-7
APART = 0.1  # widths: nearer to one of its points a quartic is not put to the test, unless it is a narrow one
FARTHEST_POINT = 2.5  # widths: a minimum farther from the middle is looked for from there
FARTHEST_STEP = 4.0  # widths: no quartic is trusted beyond
MOST_QUARTICS = 8  # then the bracket is searched by golden sections and parabolas
MINIMUM_TOLERANCES = {"xatol": 1e-10, "xrtol": 0.0, "fatol": 1e-9, "frtol": 0.0}  # of place and log Δ; one is enough
FIVE = np.arange(-2.0, 3.0)[:, None]


class RiskAgainstRate:
    """log Δ for P settings as a function of a place on the line: `γ/edge = (1 + 1/n) / (1 + e^−place)`.

    The place is log(γ/edge) for small γ and −log(1 − γ/edge) near the edge, where directions that overshoot give the
    risk features down to 1 − γ/edge ≈ 1/n. Beyond the edge, at place log n, the risk goes on as its mirror image: so a
    minimum at the edge is one inside a bracket.

    Args:
        risk: the exact risk of B, γ and n.
        edge: (P,) stability edges.
        batch, steps: (P,) B and n.
        resonant: n/B up to which steps may resonate.
        swings: what is known of a bias that swings with γ, if it does.
        steepest: the slope of log Δ over a place that is reckoned with.
    """

    def __init__(
        self,
        risk: RiskOf,
        edge: np.ndarray,
        batch: np.ndarray,
        steps: np.ndarray,
        resonant: float = RESONANT,
        swings: Swings | None = None,
        steepest: float = STEEPEST,
    ) -> None:
        self.risk = risk
        self.edge = edge
        self.batch = batch
        self.steps = steps
        self.swings = swings
        self.steepest = steepest
        self.resonates = steps <= resonant * batch
        self.fineness = np.maximum(steps, 2.0)  # a single step leaves the risk as it is, whatever γ
        self.end = np.log(self.fineness)

    def place(self, share: np.ndarray, setting: np.ndarray | slice | int = slice(None)) -> np.ndarray:
        """Places of γ/edge ≤ 1, of (P,) settings or those with these indices."""
        return np.log(share / (1 - share + 1 / self.fineness[setting]))

    def share(self, place: np.ndarray, setting: np.ndarray | slice = slice(None)) -> np.ndarray:
        """γ/edge at `place` of the settings with these indices."""
        end = self.end[setting]
        return np.minimum((1 + 1 / self.fineness[setting]) * special.expit(end - np.abs(place - end)), 1.0)

    def __call__(self, place: np.ndarray, setting: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """log Δ at `place` of the settings with these indices."""
        return self._at_share(self.share(place, setting), setting, tolerance)

    def _beyond(self, place: np.ndarray, setting: np.ndarray, tolerance: float = QUARTIC_ERROR) -> np.ndarray:
        """log Δ for quartics: beyond the edge, a little, γ goes on instead of its mirror image."""
        share = (1 + 1 / self.fineness[setting]) * special.expit(place)
        return self._at_share(share, setting, tolerance)

    def _at_share(self, share: np.ndarray, setting: np.ndarray, tolerance: float) -> np.ndarray:
        setting = np.broadcast_to(setting, share.shape)
        rate = self.edge[setting] * share
        risk = self.risk(self.batch[setting], rate, self.steps[setting], tolerance)
        assert not np.isnan(risk).any(), "a risk is a number: comparisons with nan would be false ever after"
        return np.log(np.maximum(risk, LEAST_RISK))

    def minima(self, least_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(P,) place and log Δ of the least minimum of each setting, above (P,) rates of no interest."""
        place, value, floor, setting = self._scan(least_rate)
        k = _contenders(place, value, floor, setting, self.steepest)
        setting = setting[k]
        brackets = place[[k - 1, k, k + 1]]
        values = value[[k - 1, k, k + 1]]
        found, least, settled = self.settle(_vertices(brackets, values), setting)
        settled &= np.abs(found - brackets[1]) < brackets[2] - brackets[0]  # not far away, in another basin
        settled &= least < values[1] + SCAN_ERROR
        if not settled.all():
            bad = np.flatnonzero(~settled)
            search = elementwise.find_minimum(
                lambda place, setting: self(place, setting, QUARTIC_ERROR),
                tuple(brackets[:, bad]),
                args=(setting[bad],),
                tolerances=MINIMUM_TOLERANCES,
            )
            found[bad] = np.where(search.success, search.x, brackets[1, bad])  # a bracket may be flat to rounding
            least[bad] = self(found[bad], setting[bad])
        order = np.lexsort((least, setting))
        seen, first = np.unique(setting[order], return_index=True)
        assert seen.size == self.steps.size, "every setting has a minimum"
        return found[order][first], least[order][first]

    def settle(self, start: np.ndarray, setting: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A minimum near each of (Q,) places: where it is, log Δ there, and whether it was found.

        A quartic through five points about the place; their middle moves until the minimum is among them, and they
        close up until the risk at it is what the quartic says. Where the risk falls up to the edge, the edge it is.
        """
        end = self.end[setting]
        place = np.minimum(start, end) - WIDTHS[0] / 2  # a good guess comes between two points, where it is a test
        value = np.full(start.shape, np.inf)
        level = np.zeros(start.size, dtype=int)
        settled = np.zeros(start.size, dtype=bool)
        open_ = np.arange(start.size)
        for _ in range(MOST_QUARTICS):
            width = np.array(WIDTHS)[level[open_]]
            five = self._beyond(place[open_] + width * FIVE, setting[open_])
            step, expected = _least_of_quartic(five, (end[open_] - place[open_]) / width)
            place[open_] = np.minimum(place[open_] + width * step, end[open_])
            ready = np.flatnonzero(np.abs(step) < FARTHEST_POINT)
            here = open_[ready]
            if here.size:
                value[here] = self(place[here], setting[here])
                told = np.abs(step[ready] - np.round(step[ready])) > APART  # a quartic is right at its own points
                bend = (five[1] - 2 * five[2] + five[3])[ready]
                allowed = np.clip(SETTLED_OF_BEND * bend, SETTLED, MOST_UNSETTLED)
                off = np.abs(value[here] - expected[ready])
                if (doubtful := np.flatnonzero((off >= allowed) & (off < DOUBTFUL))).size:
                    alike = self(place[here[doubtful]], setting[here[doubtful]], QUARTIC_ERROR)
                    off[doubtful] = np.abs(alike - expected[ready[doubtful]])
                settled[here] = (off < allowed) & (told | (level[here] > 0))
                level[here] += 1
            open_ = open_[~settled[open_] & (level[open_] < len(WIDTHS))]
            if not open_.size:
                break
        return place, value, settled

    def near(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(P,) place and log Δ, to some 1e-4, of the minimum near a place of each setting: by wide quartics alone."""
        place = np.minimum(start, self.end)
        open_ = np.arange(start.size)
        for _ in range(MOST_QUARTICS):
            five = self._beyond(place[open_] + ROUGH_WIDTH * FIVE, open_, SCAN_ERROR)
            step, _ = _least_of_quartic(five, (self.end[open_] - place[open_]) / ROUGH_WIDTH)
            place[open_] = np.minimum(place[open_] + ROUGH_WIDTH * step, self.end[open_])
            open_ = open_[np.abs(step) >= FARTHEST_POINT]
            if not open_.size:
                break
        return place, self(place, np.arange(place.size), SCAN_ERROR)

    def lowest(self, least_rate: np.ndarray) -> np.ndarray:
        """(P,) place of the least risk among the first ones of a scan."""
        place, setting = self._first_places(least_rate)
        order = np.lexsort((self(place, setting, SCAN_ERROR), setting))
        return place[order][np.unique(setting[order], return_index=True)[1]]

    def _first_places(self, least_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = self.place(least_rate / self.edge)
        may_swing = np.zeros(start.size, dtype=bool) if self.swings is None else self.swings.few
        above = np.where(may_swing, SPACING_SWINGING, SPACING_ABOVE)
        places = [_places(*each) for each in zip(start, self.end, self.resonates, above, strict=True)]
        return np.concatenate(places), np.repeat(np.arange(len(places)), [one.size for one in places])

    def _scan(self, least_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(G,) flat: places, increasing for each setting, log Δ, what it cannot be below there, and the setting."""
        place, setting = self._first_places(least_rate)
        value, floor = self._scanned(place, setting)
        lasting = self._lasting(value, setting)
        searches = [self._search_of_swings(k, least_rate[k]) for k in np.flatnonzero(lasting).tolist()]
        for _ in range(SWING_ROUNDS):
            swings, of = _where_it_swings(searches, place, value, setting)
            searches = [each for each in searches if each.setting in of]
            if not searches:
                break
            found, least = self._scanned(swings, of)
            place = np.append(place, swings)
            setting = np.append(setting, of)
            order = np.lexsort((place, setting))
            value = np.append(value, found)[order]
            floor = np.append(floor, least)[order]
            place = place[order]
            setting = setting[order]
        at_edge = np.flatnonzero((place >= self.end[setting]) & (value <= _lowest(value, setting)))
        if at_edge.size:  # fewer points may fail there after very many steps
            value[at_edge] = self(place[at_edge], setting[at_edge])
        while (hiding := self._where_more_may_hide(place, value, setting)).size:
            between, after = _cut(place, value, setting, hiding, self.steepest)
            found, least = self._scanned(between, setting[after])
            value = np.insert(value, after, found)
            floor = np.insert(floor, after, least)
            place = np.insert(place, after, between)
            setting = np.insert(setting, after, setting[after])
        assert (np.diff(place) > 0)[np.diff(setting) == 0].all(), "places increase"
        return place, value, np.where(lasting[setting], floor, value), setting

    def _lasting(self, value: np.ndarray, setting: np.ndarray) -> np.ndarray:
        """(P,) settings in which something swings with γ beside the least log Δ of a first scan."""
        if self.swings is None:
            return np.zeros(self.steps.size, dtype=bool)
        return self.swings.lasting(np.exp(np.minimum.reduceat(value, np.flatnonzero(np.diff(setting, prepend=-1)))))

    def _scanned(self, place: np.ndarray, setting: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log Δ for a scan, and of what cannot be less nearby: of the variance where the bias may swing, else Δ."""
        if self.swings is None:
            value = self(place, setting, SCAN_ERROR)
            return value, value
        rate = self.edge[setting] * self.share(place, setting)
        parts = self.swings.parts(self.batch[setting], rate, self.steps[setting], SCAN_ERROR)
        value = np.log(np.maximum(parts.sum(0), LEAST_RISK))
        floor = np.log(np.maximum(NOISE_FALLS * parts[1], LEAST_RISK))
        return value, floor

    def _search_of_swings(self, k: int, least_rate: float) -> SwingSearch:
        assert self.swings is not None
        first = float(self.place(least_rate / self.edge[k], k)) - SPACING
        within = partial(self.share, setting=np.array([k])), partial(self.place, setting=k)
        return SwingSearch(k, self.swings.mean, self.edge[k], self.steps[k], (first, self.end[k]), *within)

    def _where_more_may_hide(self, place: np.ndarray, value: np.ndarray, setting: np.ndarray) -> np.ndarray:
        """The right ends of intervals, up to the edge, in which the risk may be less than anywhere seen.

        Where steps do not resonate the risk is a function of γ alone, without features as narrow as 1 − γ/edge: however
        wide an interval next to the edge, on its way up the risk falls no more than the logarithm of γ allows.
        """
        first = value[:-1]
        second = value[1:]
        width = np.where(np.diff(setting) == 0, np.diff(place), 0.0)
        bound = (first + second - self.steepest * width) / 2
        growth = np.diff(np.log(self.share(place, setting)))
        smooth = ~self.resonates[setting[1:]]
        bound = np.where(smooth, np.maximum(bound, first - self.steepest * growth), bound)
        inside = place[1:] <= self.end[setting[1:]]
        return 1 + np.flatnonzero((width > _finest(self.steepest)) & inside & (bound < _lowest(value, setting)[1:]))


def _where_it_swings(
    searches: list[SwingSearch], place: np.ndarray, value: np.ndarray, setting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places about minima that the mean path alone makes, between those of a scan, and their settings."""
    found = [np.empty(0)]
    of = [np.empty(0, dtype=int)]
    for each in searches:
        mine = np.flatnonzero((setting == each.setting) & (place <= each.end))
        new = np.setdiff1d(each.places(place[mine], value[mine]), place[mine])
        found.append(new)
        of.append(np.full(new.size, each.setting))
    return np.concatenate(found), np.concatenate(of)


def _cut(
    place: np.ndarray, value: np.ndarray, setting: np.ndarray, after: np.ndarray, steepest: float = STEEPEST
) -> tuple[np.ndarray, np.ndarray]:
    """Places that cut the intervals that end at `after`, and the end of each.

    Into as many pieces as it takes if the risk is no lower between their ends, several halvings in one, but into few:
    as a rule it is higher.
    """
    first = value[after - 1]
    second = value[after]
    width = place[after] - place[after - 1]
    above = np.minimum(first, second) - _lowest(value, setting)[after]
    fall = (steepest * width - np.abs(first - second)) / 2  # below the lower end, at most
    most = np.clip(np.ceil(width / _finest(steepest)), 2, MOST_PIECES)
    pieces = np.clip(np.ceil(fall / np.maximum(above, LEAST_RISK)), 2, most).astype(int)
    cuts = [place[k - 1] + np.arange(1, n) / n * (place[k] - place[k - 1]) for k, n in zip(after, pieces, strict=True)]
    return np.concatenate(cuts), np.repeat(after, pieces - 1)


def _finest(steepest: float) -> float:
    """The width of intervals that hide no minimum, where slopes may be as steep as this."""
    return FINEST_INTERVAL * STEEPEST / steepest


def _places(start: float, end: float, resonant: bool, spacing_above: float = SPACING_ABOVE) -> np.ndarray:
    """Places to scan: from one before `start`, the least γ of interest, to the edge, and the last in the mirror."""
    fine = end + FINE_SPACING * np.arange(-FINE_PLACES if resonant else 0, 1)
    split = min(fine[0], 0.0)  # few steps: the fine places reach below half the edge
    below = split - SPACING * np.arange(max(np.ceil((split - start) / SPACING), 0.0) + 1, 0.0, -1)
    above = np.linspace(split, fine[0], int(np.ceil((fine[0] - split) / spacing_above)) + 1)[:-1]
    places = np.concatenate([below, above, fine])
    return np.append(places, 2 * end - places[-2])


def _lowest(value: np.ndarray, setting: np.ndarray) -> np.ndarray:
    """(G,) for each place the least value of its setting; the places of a setting stand together."""
    return np.minimum.reduceat(value, np.flatnonzero(np.diff(setting, prepend=-1)))[setting]


def _contenders(
    place: np.ndarray, value: np.ndarray, floor: np.ndarray, setting: np.ndarray, steepest: float = STEEPEST
) -> np.ndarray:
    """Indices of the local minima of a scan that may be the least of their setting once they are refined."""
    left = value[:-2]
    here = value[1:-1]
    right = value[2:]
    minimum = (here <= left) & (here <= right) & (setting[:-2] == setting[2:])
    drop = CONTENDING * steepest * np.diff(place)
    bound = (here + np.minimum(left - drop[:-1], right - drop[1:])) / 2
    bound = np.minimum(bound, floor[1:-1])  # where the bias swings its minima are steep
    lowest = _lowest(value, setting)[1:-1]
    # its mirror image beyond the edge may be lower than the least one by a rounding
    return 1 + np.flatnonzero(minimum & ((bound < lowest) | (here <= lowest + SCAN_ERROR)))


def _vertices(place: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(Q,) vertices of the parabolas through three points each, (3, Q); the middle one is the lowest."""
    left = place[1] - place[0]
    right = place[2] - place[1]
    down = (value[1] - value[0]) / left
    up = (value[2] - value[1]) / right
    bend = up - down
    vertex = (place[0] + place[1]) / 2 - down * (left + right) / 2 / np.where(bend > 0, bend, np.inf)
    return np.clip(np.where(bend > 0, vertex, place[1]), place[0], place[2])


def _least_of_quartic(value: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the quartics through (5, Q) values at −2 … 2 are least, in [−4, min(4, last)], and their values there."""
    f2, f1, f0, g1, g2 = value
    even = (f1 + g1 - 2 * f0) / 2
    odd = (g1 - f1) / 2
    even2 = (f2 + g2 - 2 * f0) / 2
    odd2 = (g2 - f2) / 2
    c4 = (even2 - 4 * even) / 12
    c3 = (odd2 - 2 * odd) / 6
    c2 = even - c4
    c1 = odd - c3
    bend = np.where(even2 > 0, even2, np.inf)
    step = np.where(even2 > 0, -odd2 / bend, np.where(odd2 > 0, -FARTHEST_STEP, FARTHEST_STEP))
    last = np.minimum(last, FARTHEST_STEP)
    step = np.clip(step, -FARTHEST_STEP, last)
    for _ in range(4):
        slope = c1 + step * (2 * c2 + step * (3 * c3 + step * 4 * c4))
        bend = 2 * c2 + step * (6 * c3 + step * 12 * c4)
        good = bend > 0
        step = np.clip(np.where(good, step - slope / np.where(good, bend, 1.0), step), -FARTHEST_STEP, last)
    return step, f0 + step * (c1 + step * (c2 + step * (c3 + step * c4)))
