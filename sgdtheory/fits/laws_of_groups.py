"""Laws of several groups of measurements: what they say together, and what makes it worth less than it looks."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sgdtheory._common.sheets import Quantity, Sheet, Table, between, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.abstract_law import AbstractStepsLaw, Scatter
from sgdtheory.fits.conventions import Convention, sensitivity
from sgdtheory.fits.power_law import PowerFit, fit_power_law
from sgdtheory.fits.steps_law import StepsLaw
from sgdtheory.fits.steps_measurement import StepsMeasurement
from sgdtheory.fits.u_shaped_law import UShapedLaw

LABELS = {"smallest_batch_size": "least B", "optimal_batch_size": "B_opt", "alpha": "α", "critical_batch_size": "B*"}
C_IS_0 = "c = 0: p-value of the F-test that no c is needed."


def law_remarks(law: AbstractStepsLaw, convention: Convention, scatter: Scatter | None = None) -> Iterator[str]:
    """Sentences on a fitted law, without a full stop; with c it is tested by a scatter, or its own.

    >>> import sgdtheory as st
    >>> from sgdtheory.fits import law_remarks
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> list(law_remarks(law, st.Convention(reference=16)))
    ['the reference 16 lies outside the batch sizes 64 … 4096']
    """
    low = law.batch_sizes.min()
    high = law.batch_sizes.max()
    inside = f"the batch sizes {low:g} … {high:g}"
    critical = law.critical_batch_size(convention=convention)
    reference = convention.reference_among(law.batch_sizes)
    curved = isinstance(law, UShapedLaw)
    if not low <= reference <= high and not (curved and law.optimal_batch_size >= reference):
        yield f"the reference {reference:g} lies outside {inside}"
    # One remark on B* at most: a second one would only follow from the first.
    if not (law.b or (curved and law.c)):
        yield "steps do not fall with the batch size, so B* is the convention alone"
    elif isinstance(law, StepsLaw) and reference > law.knee:
        least = (1 + convention.overhead) * reference
        yield (
            f"the reference {reference:g} lies beyond the knee {law.knee:.4g}, where steps hardly fall any more, so B* "
            f"is close to {1 + convention.overhead:g} × {reference:g} = {least:.4g} wherever the knee is: give steps "
            "of smaller batch sizes"
        )
    elif np.isinf(critical):
        yield "no plateau was measured, so B* is not bounded from above"
    elif not low <= critical <= high:
        yield f"B* = {critical:.4g} lies outside {inside}"
    if isinstance(law, StepsLaw):
        yield from _on_shape(law, convention)
    if curved:
        yield from _on_optimum(law, scatter, low, high)


def _on_shape(law: StepsLaw, convention: Convention) -> Iterator[str]:
    """Return the remark that residuals favour another exponent, with what it makes of B*."""
    test = law.shape_test
    # With five batch sizes and steps that scatter by 2%, a p-value of 0.2 names α = 0.8 in four of five data sets; 0.05
    # would in one of three.
    if test is None or test.p_value > 0.2:
        return
    other = test.law.critical_batch_size(convention=convention)
    begin = f"the law's shape is in doubt: α = {test.law.alpha:.3g} fits better (p = {test.p_value:.2g}), with B* = "
    remedy = "fit α too" if test.law.alpha < 1 else "fit α too, or an optimal batch size"
    low, high = law.admitted_exponents
    if low <= test.law.alpha <= high:
        allowed = "the interval allows for it"
    elif low == high:
        allowed = f"the interval assumes α = {low:.3g}"
    else:
        allowed = f"the interval allows α from {low:.3g} to {high:.3g}"
    yield f"{begin}{other:.4g}; {allowed}: {remedy}"


def _on_optimum(law: UShapedLaw, scatter: Scatter | None, low: float, high: float) -> Iterator[str]:
    test = law.curvature_test(scatter)
    best = law.optimal_batch_size
    if test.p_value > 0.05:
        yield f"c is not needed (p = {test.p_value:.2g}): no optimal batch size is seen, a + b/B does as well"
    elif not low <= best <= high:
        yield f"the optimal batch size {best:.4g} lies outside the batch sizes {low:g} … {high:g}"


@dataclass(frozen=True, eq=False)
class LawsOfGroups(Shown):
    """The laws of groups of measurements under one convention; where sizes differ, B* against size.

    Attributes:
        measurements: of each group.
        laws: fitted to them.
        convention: of B*.
        level: of all intervals.
        scatter: one for all laws with an optimal batch size; None: of each its own.
        forecasts: sizes at which B* is forecast.

    Raises:
        ValueError: forecasts without two different sizes and finite B*.
    """

    figure: ClassVar[str] = "laws_of_groups"

    measurements: tuple[StepsMeasurement, ...]
    laws: tuple[AbstractStepsLaw, ...]
    convention: Convention
    level: float = 0.95
    scatter: Scatter | None = None
    forecasts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.forecasts and self.power is None:
            raise ValueError(
                "forecast needs a column of sizes (--size) with at least two different ones, and finite B*"
            )

    @property
    def sizes(self) -> list[float]:
        """Return the size of each group, nan where it is not known."""
        return [each.size for each in self.measurements]

    @property
    def is_curved(self) -> bool:
        """Return whether the laws have an optimal batch size."""
        return isinstance(self.laws[0], UShapedLaw)

    @cached_property
    def power(self) -> PowerFit | None:
        """B* as a power of the size; None where there are not two sizes, or a B* is not finite."""
        critical = [law.critical_batch_size(convention=self.convention) for law in self.laws]
        known = len(set(self.sizes)) > 1 and np.isfinite([*self.sizes, *critical]).all()
        return fit_power_law(self.sizes, critical) if known else None

    def sheet(self) -> Sheet:
        """Return the laws, a row each; where sizes differ also the exponent of B*, forecasts and other conventions."""
        settings: dict[str, Any] = {"convention": vars(self.convention), "level": self.level}
        if self.scatter:
            settings["scatter"] = self.scatter._asdict()
        tables = [self._laws()]
        if self.power:
            settings["forecasts"] = []
            tables += [_exponent(self.power, self.level), *self._forecasts(self.power), self._sensitivity()]
        return Sheet("", tables, list(self._remarks()), settings, answer=self._answer())

    def _answer(self) -> str:
        """Return B* of a single group, or of several the groups that do not determine it; empty if all do."""
        critical = [self._of(law, "critical_batch_size") for law in self.laws]
        opened = [
            f"{each.group or 'all'}, {between(*ends)}"
            for each, (_, ends) in zip(self.measurements, critical, strict=True)
            if ends[0] == 0 or np.isinf(ends[1])
        ]
        if len(critical) > 1:
            return f"B* is not determined ({self.level:.0%}) for {'; '.join(opened)}" if opened else ""
        ((value, ends),) = critical
        if opened:
            return f"B* is not determined: its {self.level:.0%} interval is {between(*ends)}"
        definition = definition_text(self.convention, curved=self.is_curved)
        return f"B* = {number(value)} ({between(*ends)}, {self.level:.0%}), {definition}"

    def _laws(self) -> Table:
        names = ["a", "b", "alpha", "critical_batch_size"]
        if self.is_curved:
            names = ["a", "b", "c", "smallest_batch_size", "optimal_batch_size", "critical_batch_size"]
        tested = all(law.standard_errors is not None for law in self.laws)
        found = [[self._of(law, name) for law in self.laws] for name in names]
        groups = [each.group for each in self.measurements]
        narrow = "abc" if self.is_curved else ""  # Readers see these without intervals, so that the table fits.
        quantities = [
            Quantity("group", "", groups),
            Quantity("size", "", self.sizes),
            Quantity("", "group", [group or "all" for group in groups]),
            *(
                Quantity("", name, [value for value, _ in each])
                for name, each in zip(names, found, strict=True)
                if name in narrow
            ),
            *(
                Quantity(name, LABELS.get(name, name), [value for value, _ in each], [ends for _, ends in each])
                for name, each in zip(names, found, strict=True)
            ),
            Quantity("residual_std", "", [law.residual_std for law in self.laws]),
        ]
        legend = []
        if self.is_curved:
            tests: Any = [law.curvature_test(self.scatter) for law in self.laws if isinstance(law, UShapedLaw)]
            quantities += [
                Quantity("curvature_test", "", [test._asdict() for test in tests]),
                Quantity("", "c = 0", [test.p_value for test in tests], digits=2),
            ]
            legend.append(C_IS_0)
        if tested:
            fits = [law.lack_of_fit for law in self.laws]
            quantities += [
                Quantity("lack_of_fit", "", [fit._asdict() for fit in fits]),
                Quantity("misfit", "", [law.misfit for law in self.laws]),
                Quantity("", "χ²", [f"{fit.chi_square:.3g} / {fit.freedom}" for fit in fits]),
                Quantity("", "p", [fit.p_value for fit in fits], digits=1),
                Quantity("", "misfit", [f"{law.misfit:.1%}" for law in self.laws]),
            ]
            legend.append(
                "p: probability of so large a χ² if the law holds. Misfit: scatter of steps beyond their errors."
            )
        has_alpha = any(law.num_parameters > 2 for law in self.laws)
        formula = "a + b/B + c/B²" if self.is_curved else "a + b/B^α" if has_alpha else "a + b/B"
        hidden = ["group", "size", "residual_std", "curvature_test", "lack_of_fit", "misfit"]
        hidden += [*narrow, *([] if has_alpha else ["alpha"])]
        title = f"steps = {formula};  B*: {definition_text(self.convention, curved=self.is_curved)}"
        return Table(quantities, "groups", title, f"{self.level:.0%}", "\n".join(legend), hidden)

    def _of(self, law: AbstractStepsLaw, name: str) -> tuple[float, tuple[float, float]]:
        """A number of a law, and its interval."""
        options: dict[str, Any] = {"scatter": self.scatter} if self.is_curved else {}
        value: Any = getattr(law, name)
        value = value(convention=self.convention) if callable(value) else value
        return value, law.interval(name, self.level, convention=self.convention, **options)

    def _forecasts(self, power: PowerFit) -> Iterator[Table]:
        if self.forecasts:
            low, high = power.prediction_interval(np.array(self.forecasts), self.level)
            ends = list(zip(low, high, strict=True))
            # JSON has the intervals under one key, readers see them beside the values.
            values = power.predict(np.array(self.forecasts))
            quantities = [
                Quantity("size", "size", self.forecasts),
                Quantity("critical_batch_size", "", values),
                Quantity("interval", "", ends),
                Quantity("", "B*", values, ends),
            ]
            header = f"{self.level:.0%}, new measurement"
            yield Table(quantities, "forecasts", "forecasts", header, hidden=["critical_batch_size", "interval"])

    def _sensitivity(self) -> Table:
        rows = sensitivity(self.laws, self.sizes, level=self.level)
        critical = [row.critical_batch_sizes for row in rows]
        quantities = [
            Quantity("overhead", "", [row.overhead for row in rows]),
            Quantity("", "overhead", [f"{row.overhead:.0%}" for row in rows]),
            Quantity("reference", "reference B", [row.reference for row in rows]),
            Quantity("critical_batch_sizes", "", critical),
            Quantity("", "B* of each group", ["  ".join(f"{value:.0f}" for value in each) for each in critical]),
            Quantity("exponent", "exponent", [row.exponent for row in rows], [row.interval for row in rows], digits=3),
        ]
        title = "B* and its exponent under other conventions"
        return Table(quantities, "sensitivity", title, f"{self.level:.0%}", hidden=["overhead", "critical_batch_sizes"])

    def _remarks(self) -> Iterator[str]:
        """Return reasons to trust B* and the exponent less than their intervals suggest."""
        for measured, law in zip(self.measurements, self.laws, strict=True):
            name = measured.group or "the measurements"
            yield from measured.remarks
            for remark in law_remarks(law, self.convention, self.scatter):
                yield f"{name}: {remark}"
            if law.residual_std > 0.5:  # A factor of 1.6: the law does not describe such steps.
                yield (
                    f"{name}: the steps scatter about the law by {law.residual_std:.0%}, so that it does not describe "
                    "them and B* means nothing; give steps to one target, with each batch size tuned"
                )
            if measured.computed:
                yield f"{name}: computed steps do not scatter: the intervals only say how far they are off the law"
            if measured.critical is not None:
                found = measured.critical
                ends = f"{number(found.batch_size)} ({between(*found.interval)})"
                yield f"{name}: the fit that wrote these steps found B* {ends}, which `plan` uses"
            if law.freedom == 1 and self.scatter is None:
                parameters = law.steps.size - 1
                yield f"{name}: {law.steps.size} batch sizes for {parameters} parameters {self._one_left}"
        if self.power and self.power.num_points == 2:
            yield "two sizes show no scatter: the exponent's interval is unlimited; measure five or more"
        if self.power and self.power.num_points == 3:
            yield f"three sizes for the exponent and its coefficient {self._one_left}"

    @property
    def _one_left(self) -> str:
        """End of a sentence on as many points as parameters but for one."""
        quantile = special.stdtrit(1, (1 + self.level) / 2)
        return (
            f"leave one degree of freedom (t = {quantile:.1f} at {self.level:.0%}): the intervals are as wide as the "
            "one residual happens to be; measure two more"
        )


def definition_text(convention: Convention, *, curved: bool) -> str:
    """Return the definition of B* for a title: with c overheads count from B_opt of each group, if that is larger."""
    at = f"each group's B_opt or at {convention.reference_text}, the larger" if curved else convention.reference_text
    return f"{convention.overhead:.0%} more data than at {at}"


def _exponent(power: PowerFit, level: float) -> Table:
    quantities = [
        Quantity("coefficient", "coefficient", power.coefficient),
        Quantity("exponent", "exponent", power.exponent, power.interval(level)),
    ]
    return Table(quantities, "power_law", "B* = coefficient · size^exponent", f"{level:.0%}")
