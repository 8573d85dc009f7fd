"""Any bound against the exact risk: where is it tight, and how far off can it be?"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.arguments import first_where, real_array, samples_used, settings_arrays, whole_number
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import DEFAULT, Algorithm
from sgdtheory.bounds.certificate import Certificates, certify, problem_in_words
from sgdtheory.bounds.published import description
from sgdtheory.bounds.setting import Setting, as_setting
from sgdtheory.bounds.simulated import Simulated, disagreements, simulated_means
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import excess_risk

ENDLESS = (
    "the problem has infinitely many directions. To test the bound on finite problems only, pass "
    "settings=st.testing.settings(st.testing.problems(power_laws=False))"
)


@dataclass(frozen=True)
class Comparison(Shown):
    """exact / bound at every point, in the order of the settings (arrays flattened).

    Attributes:
        exact: (P,) exact values.
        bound: (P,) values of the bound.
        settings: the P points, with scalar B, γ and D, the latter as the number of samples used, `B⌊D/B⌋`
            (of K workers `KB⌊D/(KB)⌋`).
        applies: (P,) whether the bound's own conditions hold; of the others the extremes know nothing.
        side: of the risk on which the bound is: "upper", "lower", or "both", up to constant factors.
        simulated: what was simulated there, if asked for.
        certificates: what is proven at the two extremes, if asked for.
    """

    exact: np.ndarray
    bound: np.ndarray
    settings: tuple[Setting, ...]
    applies: np.ndarray
    side: str = "upper"
    simulated: Simulated | None = None
    certificates: Certificates | None = None

    @property
    def ratio(self) -> np.ndarray:
        """(P,) exact / bound; nan where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.exact / self.bound

    @property
    def lowest(self) -> float:
        """Smallest ratio where the bound applies: the constant with which it holds from below. nan: nowhere."""
        return self._extreme(np.nanargmin)

    @property
    def highest(self) -> float:
        """Largest ratio where the bound applies: the constant with which it holds from above. nan: nowhere."""
        return self._extreme(np.nanargmax)

    @property
    def lowest_at(self) -> Setting:
        """The setting that attains `lowest`."""
        return self.settings[self._place(np.nanargmin)]

    @property
    def highest_at(self) -> Setting:
        """The setting that attains `highest`."""
        return self.settings[self._place(np.nanargmax)]

    @property
    def _inside(self) -> np.ndarray:
        """(P,) ratios; nan where the bound does not apply, and so says nothing that could be wrong."""
        return np.where(self.applies, self.ratio, np.nan)

    def _place(self, extreme: Callable[[np.ndarray], Any]) -> int:
        if np.isnan(self._inside).all():
            raise ValueError("the bound applies at none of the settings, so that no ratio is an extreme")
        return int(extreme(self._inside))

    def _extreme(self, extreme: Callable[[np.ndarray], Any]) -> float:
        # A number may be nan, which fails every test `highest < …`; a setting cannot, and `_place` raises.
        return float("nan") if np.isnan(self._inside).all() else float(self._inside[self._place(extreme)])

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Pairs of simulation, exact risk and bound that disagree, each with the setting where it is worst."""
        if self.simulated is None:
            return ()
        return disagreements(self.settings, self.exact, self.bound, self.side, self.applies, self.simulated)

    def sheet(self) -> Sheet:
        """The two extremes of exact over bound, and where they are."""
        inside = int(self.applies.sum())
        extremes = (
            [("lowest", self.lowest, self.lowest_at), ("highest", self.highest, self.highest_at)] if inside else []
        )
        quantities = [
            Quantity("extreme", "", [name for name, *_ in extremes]),
            Quantity("ratio", "exact / bound", [ratio for _, ratio, _ in extremes]),
            Quantity("batch_size", "B", [setting.batch_size for *_, setting in extremes]),
            Quantity("learning_rate", "γ", [setting.learning_rate for *_, setting in extremes]),
            Quantity("num_samples", "D", [setting.num_samples for *_, setting in extremes]),
            Quantity("problem", "problem", [problem_in_words(setting.problem) for *_, setting in extremes]),
        ]
        title = f"{inside} of {self.applies.size} settings meet the bound's conditions"
        return Sheet(title, [Table(quantities, "extremes")])


def compare(
    bound: Callable[..., Any],
    settings: Setting | Mapping[str, Any] | Iterable[Setting | tuple | Mapping[str, Any]],
    *,
    quantity: str = "total",
    algorithm: Algorithm | None = None,
    simulate: int = 0,
    law: Any = "gaussian",
    seed: int = 0,
    certified: bool = False,
) -> Comparison:
    """Ratio exact / bound over settings: the constants with which a bound holds, and where they are attained.

    Both sides speak of the same run. Where B does not divide D, SGD takes ⌊D/B⌋ steps and drops the incomplete last
    batch, and the bound is asked about the `B⌊D/B⌋` samples that are used: at D itself a formula in D/B would be beside
    the run, by up to a factor of 2 in n for D just below 2B.

    Example:
        >>> import sgdtheory as st
        >>> settings = [st.Setting(st.PowerLaw(2.0, 3.0, noise_variance=2.0), 16, 0.5, [1e3, 1e6, 1e9])]
        >>> result = st.compare(st.theorem7, settings)
        >>> print(f"{result.lowest:.2f} to {result.highest:.2f}")
        0.54 to 0.65

    Args:
        bound: called as `bound(problem, batch_size=B, learning_rate=γ, num_samples=D)` with arrays of one shape;
            returns an array (or a scalar) or an object that has it under the name of the quantity, as
            `theorem7`'s result has `total`, `bias` and `variance`. Such an object may say where it `applies`.
        settings: `Setting`s, plain tuples `(problem, B, γ, D)` or mappings with its field names; or one `Setting`.
        quantity: what of the exact risk to compare with: "total", "bias" or "variance".
        algorithm: whose risk; None: the bound's own, if it is a published one, else averaged SGD.
        simulate: R > 1: the means of so many simulated replicas stand beside exact and bound, and `disagreements` says
            which of the three differ.
        law: of the simulated data, as in `simulate`: "rademacher", `EllipticalT(ν)`, …; exact is of Gaussian data.
        seed: of the simulation.
        certified: enclose exact risk and bound at the two extremes in ball arithmetic, as `st.bounds.certify` does.

    Returns:
        Comparison.

    Raises:
        ValueError: no settings, an unknown quantity, an argument outside its range, or a bound that is negative, not
            a number (where it says that it applies), of a wrong shape or of no known side.
    """
    if quantity not in ("total", "bias", "variance"):
        raise ValueError(f"quantity must be 'total', 'bias' or 'variance', got {quantity!r}")
    listed: Any = [settings] if isinstance(settings, Setting | Mapping) else settings
    if not callable(bound) or not isinstance(listed, Iterable):
        raise ValueError("compare takes a bound, which is a function, and a list of settings; see its documentation")
    replicas = whole_number("simulate", simulate, 0)
    about = description(bound)
    run = algorithm or about.algorithm or DEFAULT
    found = [_compared(bound, as_setting("each of settings", item), quantity, run) for item in listed]
    if not found:
        raise ValueError("settings must hold at least one setting, got none")
    exact, values, applies, points = zip(*found, strict=True)
    comparison = Comparison(
        np.concatenate(exact),
        np.concatenate(values),
        tuple(itertools.chain(*points)),
        np.concatenate(applies),
        about.side,
    )
    if certified and not np.isnan(comparison.highest):
        ends = (comparison.lowest_at, comparison.highest_at)
        proven = Certificates(*(certify(bound, each, quantity=quantity, algorithm=run) for each in ends))
        comparison = replace(comparison, certificates=proven)
    if not replicas:
        return comparison
    means = simulated_means(
        comparison.settings,
        comparison.exact,
        comparison.bound,
        replicas=replicas,
        quantity=quantity,
        algorithm=run,
        law=law,
        seed=seed,
    )
    return replace(comparison, simulated=means)


class _Found(NamedTuple):
    """Exact risk and bound at the P points of one setting, whether the bound applies there, and the points."""

    exact: np.ndarray
    bound: np.ndarray
    applies: np.ndarray
    points: list[Setting]


def _compared(bound: Callable[..., Any], setting: Setting, quantity: str, algorithm: Algorithm) -> _Found:
    batch, rate, samples = settings_arrays(*setting[1:])
    samples = samples_used(algorithm.workers * batch, samples)  # exact risk and bound speak of the same run
    arguments: Any = {"batch_size": batch, "learning_rate": rate, "num_samples": samples}
    exact = getattr(excess_risk(setting.problem, **arguments, algorithm=algorithm), quantity)
    value = _asked(bound, setting.problem, arguments)
    # of a plain number nothing else is known: it is meant wherever it is asked for
    applies = np.broadcast_to(getattr(value, "applies", True), batch.shape).ravel()
    values = _flatten(getattr(value, quantity, value), batch.shape, quantity, applies)
    points = [
        Setting(setting.problem, *map(float, point)) for point in zip(batch.flat, rate.flat, samples.flat, strict=True)
    ]
    return _Found(np.ravel(exact), values, applies, points)


def _asked(bound: Callable[..., Any], problem: AbstractProblem, arguments: Mapping[str, Any]) -> Any:
    """Call a bound; if it does not take these arguments, the error says how a bound is written."""
    try:
        inspect.signature(bound).bind(problem, **arguments)
    except TypeError:
        name = getattr(bound, "__name__", "bound")
        raise ValueError(
            "bound must be callable as bound(problem, batch_size=B, learning_rate=γ, num_samples=D), got "
            f"{name}{inspect.signature(bound)}; name its arguments like that"
        ) from None
    except ValueError:  # of what C makes there is no signature
        pass
    try:
        return bound(problem, **arguments)
    except (AttributeError, ValueError) as error:
        if problem.dim is None:
            error.add_note(ENDLESS)
        raise


def _flatten(value: Any, shape: tuple[int, ...], quantity: str, applies: np.ndarray) -> np.ndarray:
    try:
        flat = np.broadcast_to(real_array("bound", value), shape).ravel()
    except ValueError:
        raise ValueError(
            f"bound must return a number, an array of shape {shape} or an object with such a .{quantity}, got {value!r}"
        ) from None
    bad = ~(flat >= 0) & applies
    if bad.any():
        raise ValueError(f"bound must return numbers that are not negative, got {first_where(flat, bad)}")
    return flat
