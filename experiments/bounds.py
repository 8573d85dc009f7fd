"""Does every published bound hold within its conditions, and where is it tight? Compared with the exact risk."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.bound_domains import KINDS, NUM_COORDINATES, SHARED, UNITS, Domain, Row, words
from experiments._lib.bounds_figures import best_of_each_side, tightness
from experiments._lib.extremes import climb, refine, unit_points
from experiments._lib.processes import map_on_cores
from experiments._lib.progress import stage, tracked
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of

SIDES = {"upper": (1,), "lower": (-1,), "both": (-1, 1)}  # where a bound could fail: at large or small exact/bound
SLACK = 1e-9  # relative: exact risks are right to 1e-10
COST = 6  # of exact risks of tail averages and last iterates, in those of averages: they get fewer rounds
LIMIT_ALONE = "defossez_bach_2015"  # which says what the risk tends to, and nothing of finite n
MANY_STEPS = np.linspace(0, 1, 21)  # on the axis of n: 1, 2, 7, 22, … 10⁹
MANY_RATES = 0.0, 1 / 3, 5 / 9, 1.0  # on the axis of γ: 1e-9, 1e-6, 1e-4 and 1 of its limit
ORDER = 0.01, 10.0  # a constant between these is one of order 1


@dataclass(frozen=True)
class Config:
    """Settings of each bound and kind of problem, the climbs from the most extreme of them, and what refines those."""

    seed: int = 0
    problems: int = 3
    settings_per_problem: int = 6
    starts: int = 2
    trials: int = 8  # settings that each climb tries in a round, on one problem
    rounds: int = 12
    refinements: int = 4  # of the highest place of each climb, along one coordinate at a time
    kinds: tuple[str, ...] = tuple(KINDS)
    processes: int | None = None  # None: one for each core


SOME_KINDS = "d = 1", "equal", "d = 10, clustered", "power law, d = 50", "power law"
SCALES = {
    "quick": Config(rounds=9, kinds=SOME_KINDS),
    "full": Config(problems=6, starts=3, trials=8, rounds=24, refinements=12),
}


def run(config: Config) -> Result:
    """Random settings of every bound, their extremes sharpened, and the limits in which constants are exact."""
    start = time.perf_counter()
    names = [bound.name for bound in st.bounds.catalogue()]
    with stage("settings and extremes", 0.0, 1.0):
        found = map_on_cores(partial(studied, config), names, config.processes)
    rows = [row for each in found for row in each] + list(limit_rows())
    verdicts = judged(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, _figures(rows), tuple(verdicts))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(rows_of(Row, recorded.rows))


def _figures(rows: list[Row]) -> dict[str, Figure]:
    return {"bounds": tightness(summaries(rows)), "bounds_best": best_of_each_side()}


def studied(config: Config, name: str) -> list[Row]:
    """One bound at random settings of every kind, and the extremes that climbs reach from there."""
    domain = Domain(_bound(name))
    printed = Domain(domain.bound, largest_batch=1.0)  # most theorems are about one sample a step
    random = unit_points(config.seed, (config.problems, config.settings_per_problem, NUM_COORDINATES), SHARED)
    edges = _edges(random[0, 0])
    unit = np.concatenate([random.reshape(-1, NUM_COORDINATES), *edges])
    rows: list[Row] = []
    for kind in tracked(config.kinds):
        sample = [row for each in random for row in domain.rows(kind, each, "sample")]
        own = sample + [row for each in edges for row in domain.rows(kind, each, "edge")]
        ratio = np.array([row.ratio for row in own])
        if np.isnan(ratio).all():  # it needs finitely many directions, say
            continue
        rows += [row for row in sample if not np.isnan(row.ratio)]
        rows += [_sharpened(config, domain, kind, unit, ratio, side) for side in SIDES[domain.bound.side]]
        if domain.most_batch > 1:
            single = np.array([row.ratio if row.batch_size == 1 else np.nan for row in own])
            rows += [_sharpened(config, printed, kind, unit, single, side) for side in SIDES[domain.bound.side]]
    return rows


def _edges(place: np.ndarray) -> list[np.ndarray]:
    """One spectrum without noise and with much of it, at the ends of B and γ and many n: extremes tend to lie there.

    (S, 7) points of the unit cube of each; climbs begin there too.
    """
    settings = np.array(list(product((0.0, 1.0), MANY_STEPS, MANY_RATES)))
    found = []
    for noise in (0.0, 1.0):
        problem = np.tile(np.append(place[: SHARED - 1], noise), (len(settings), 1))
        found.append(np.hstack([problem, settings]))
    return found


def _sharpened(config: Config, domain: Domain, kind: str, unit: np.ndarray, ratio: np.ndarray, side: int) -> Row:
    """The largest exact/bound (side 1) or the smallest (−1) that climbs reach from the most extreme settings."""
    height = np.where(np.isnan(ratio), -np.inf, side * ratio)
    leaders = np.argsort(-height)[: config.starts]
    cheap = domain.bound.algorithm == st.algorithms.DEFAULT

    def value(trials: np.ndarray) -> np.ndarray:
        tried = [[row.ratio for row in domain.rows(kind, each, "search")] for each in trials.swapaxes(0, 1)]
        heights = side * np.array(tried).T
        return np.where(np.isnan(heights), -np.inf, heights)

    effort = {"trials": config.trials, "rounds": config.rounds if cheap else -(-config.rounds // COST)}
    winner, reached = climb(value, unit[leaders], height[leaders], seed=config.seed, shared=SHARED, **effort)
    winner, _ = refine(value, winner, reached, rounds=config.refinements, shared=SHARED)
    return domain.rows(kind, winner[None], "search")[0]


def _bound(name: str) -> st.bounds.PublishedBound:
    return next(bound for bound in st.bounds.catalogue() if bound.name == name)


# ------------------------------------------------------------------ limits


class Limit(NamedTuple):
    """A way along which exact/bound tends to 1.

    Attributes:
        bound: whose.
        words: the way.
        problem: its eigenvalues, signal and σ², or x → these.
        run: x → B, γ over the edge, n.
        far: x, increasing.
    """

    bound: str
    words: str
    problem: tuple[Any, Any, float] | Callable[[float], tuple[Any, Any, float]]
    run: Any
    far: tuple[float, ...]


ONE = [1.0], [1.0], 0.0
NOISE = [1.0], [0.0], 1.0
LIMITS = (
    Limit(
        "bach_moulines_2013",
        "d = 1, B = 1, noise alone, γ → 0, nγ → ∞",
        NOISE,
        lambda x: (1.0, 1 / x, min(x**2, 1e15)),
        (1e2, 1e4, 1e6, 1e8),
    ),
    Limit("bach_2024", "d = 1, σ² = 0, n = 1, γ → 1/R², B → ∞", ONE, lambda x: (x, 1.0, 1.0), (1e2, 1e4, 1e6, 1e8)),
    Limit(
        "jain_2017", "d = 1, B = 1, noise alone, γ → 0, nγ → ∞", NOISE, lambda x: (1.0, 1 / x, x**2), (1e2, 1e4, 1e6)
    ),
    Limit(
        "jain_2018",
        "d equal λ, B = 1, σ² = 0, γ = 1/R², d → ∞, n = 100 (d + 2)",
        lambda x: (np.ones(int(x)), np.eye(1, int(x))[0], 0.0),
        lambda x: (1.0, 1.0, 100 * (x + 2)),
        (1e1, 1e2, 1e3, 1e4),
    ),
    Limit(
        LIMIT_ALONE,
        "d = 2, n → ∞",
        ([1.0, 0.3], [0.2, 1.0], 0.5),
        lambda x: (1.0, 0.5, x),
        (1e2, 1e4, 1e6, 1e8),
    ),
)


def limit_rows() -> Iterator[Row]:
    """The bounds of `LIMITS` on their ways."""
    for limit in LIMITS:
        domain = Domain(_bound(limit.bound))
        for far in limit.far:
            eigenvalues, signal, noise = limit.problem(far) if callable(limit.problem) else limit.problem
            problem = st.LeastSquares(eigenvalues, signal, noise_variance=noise)
            dim = len(eigenvalues)
            batch, share, steps = (np.array([float(each)]) for each in limit.run(far))
            edge = domain.edge(problem, batch, steps)
            kind = f"d = {dim}" if dim <= 2 else "equal"
            numbers = (float(dim) if kind == "equal" else 0.0, 0.0, 0.0)
            yield from domain.compared(kind, numbers, problem, (batch, steps, edge * share, share), "limit")


def _limit_verdict(limit: Limit, rows: Sequence[Row], summary: "Summary") -> Verdict:
    """Return the verdict on whether the gap decreases up to the last setting."""
    gaps = [abs(1 - row.ratio) for row in rows if (row.bound, row.found) == (limit.bound, "limit")]
    shrinks = all(later < former / 5 for former, later in zip(gaps, gaps[1:], strict=False))
    digits = int(-np.log10(gaps[-1]))
    ends = f"{summary.lowest.ratio:.2g} to {summary.highest.ratio:.6g}"
    elsewhere = f"; at the settings drawn the ratio is {ends}" if limit.bound == LIMIT_ALONE else ""
    return Verdict(
        f"{limit.bound}: exact in a limit",
        f"exact/bound → 1 for {limit.words}"
        + ("" if limit.bound == LIMIT_ALONE else ": no smaller factor before the bound is true"),
        "a gap that falls to 0",
        f"|1 − exact/bound| = {', '.join(f'{gap:.2g}' for gap in gaps)}: {digits} digits{elsewhere}",
        (min(gaps), max(gaps)),
        "holds" if shrinks and gaps[-1] < 1e-3 else "fails",
    )


# ------------------------------------------------------------------ verdicts


class Summary(NamedTuple):
    """exact/bound of one bound.

    Attributes:
        bound: the bound.
        ratio: (N,), sorted, at random settings.
        lowest: the row where it is smallest, climbs included; where nothing climbed down, of the sample.
        highest: where it is largest.
        single: the setting with the extreme ratio among those with B = 1.
    """

    bound: st.bounds.PublishedBound
    ratio: np.ndarray
    lowest: Row
    highest: Row
    single: Row

    @property
    def tightest(self) -> Row:
        """Return the row in which the bound is nearest to being violated; the upper side of a two-sided one."""
        return self.lowest if self.bound.side == "lower" else self.highest

    @property
    def holds(self) -> bool:
        """Return whether no setting violates a bound that has constants."""
        ratio = self.tightest.ratio
        return ratio >= 1 - SLACK if self.bound.side == "lower" else ratio <= 1 + SLACK


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """One a bound of the table, in the catalogue's order."""
    found = []
    for bound in st.bounds.catalogue():
        own = sorted((row for row in rows if row.bound == bound.name and row.found != "limit"), key=lambda r: r.ratio)
        if own:
            sample = np.array([row.ratio for row in own if row.found == "sample"])
            one = [row for row in own if row.batch_size == 1]
            found.append(Summary(bound, sample, own[0], own[-1], one[0 if bound.side == "lower" else -1]))
    return found


def judged(config: Config, rows: Sequence[Row], seconds: float) -> list[Verdict]:
    """One verdict a bound, the limits, and whether a tenth of a constant would be seen to be wrong."""
    found = summaries(rows)
    bounds = [_order(each) if each.bound.standing == "order" else _sided(each) for each in found]
    verdicts = [each for each in bounds if each is not None]
    by_name = {each.bound.name: each for each in found}
    verdicts += [_limit_verdict(limit, rows, by_name[limit.bound]) for limit in LIMITS]
    verdicts.append(_control(found))
    verdicts[0] = replace(verdicts[0], seconds=seconds)
    return verdicts


def _sided(summary: Summary) -> Verdict:
    """A bound with all its constants."""
    bound = summary.bound
    worst = summary.tightest
    median = float(np.median(summary.ratio))
    lower = bound.side == "lower"
    most = "at least" if lower else "at most"
    unverified = ", not verified against the paper" if bound.standing == "unverified" else ""
    return Verdict(
        f"{bound.name}{unverified}",
        f"exact risk {'≥' if lower else '≤'} {bound.source}{unverified}: {bound.about}; tightest at {words(worst)}; "
        f"with B = 1 at {words(summary.single)}",
        "exact/bound ≥ 1" if lower else "exact/bound ≤ 1",
        f"{most} {worst.ratio:.4g}, with B = 1 {summary.single.ratio:.4g}; median {median:.2g}",
        (worst.ratio, median) if lower else (median, worst.ratio),
        "holds" if summary.holds else "fails",
    )


def _order(summary: Summary) -> Verdict | None:
    """A bound up to constants: their range."""
    bound = summary.bound
    highest = summary.highest
    lowest = summary.lowest
    if bound.name == LIMIT_ALONE:
        return None
    both = bound.side == "both"
    bounded = highest.ratio < ORDER[1] and (not both or lowest.ratio > ORDER[0])
    low = lowest.ratio if both else float(np.median(summary.ratio))
    where = f"{words(lowest)} and {words(highest)}" if both else words(highest)
    return Verdict(
        f"{bound.name}, constants",
        f"exact risk {'≍' if both else '≲'} {bound.source}: {bound.about}; attained at {where}",
        "bounded ratio",
        f"{low:.4g} ≤ ratio ≤ {highest.ratio:.4g}" if both else f"ratio ≤ {highest.ratio:.4g}, median {low:.2g}",
        (low, highest.ratio),
        "holds" if bounded else "inconclusive",
    )


def _control(found: Sequence[Summary]) -> Verdict:
    """Each bound with constants, divided by ten (a lower one times ten), against the same settings."""
    sided = [each for each in found if each.bound.standing != "order"]
    room = {
        each.bound.name: each.lowest.ratio if each.bound.side == "lower" else 1 / each.highest.ratio for each in sided
    }
    widest = max(room, key=lambda name: room[name])
    refuted = sum(value < 10 for value in room.values())
    return Verdict(
        "control: constants made ten times smaller",
        "every bound with constants, made ten times tighter, is refuted at some of these settings",
        f"{len(room)} of {len(room)} refuted",
        f"{refuted} of {len(room)}; largest slack: {widest}, a factor of {room[widest]:.3g}",
        (min(room.values()), max(room.values())),
        "holds" if refuted == len(room) else "fails",
    )
