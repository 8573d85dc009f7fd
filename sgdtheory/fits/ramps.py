"""Batch sizes along a run, from the laws of steps to several targets on the way.

While a run gets from one target to the next the noise scale is 𝓑, and a step with batch size B makes 1/(1 + 𝓑/B) of
the progress of a step without noise (McCandlish et al. 2018, section 2 and appendix D). Over ds steps without noise

    dS = (1 + 𝓑/B) ds,   dE = (B + 𝓑) ds,

so that at constant B a target has S = a + b/B with a = ∫ds and b = ∫𝓑 ds: laws of neighbouring targets j − 1 and j tell
the noise scale between them, `𝓑_j = (b_j − b_{j−1})/(a_j − a_{j−1})`. One law alone tells its mean b/a, and justifies
one batch size. Least S + E/r, at r samples for a step, has `B_j = √(r 𝓑_j)`, and with Δa_j = a_j − a_{j−1}

    (S − a)(E − b) = (Σ_j √𝓑_j Δa_j)² ≤ a b,

where a constant batch size has a b (Cauchy and Schwarz; equality where all 𝓑_j are the same). The targets have to be
losses on the way of one run: where each had a decay of the learning rate of its own, a run to the last one has no need
to average noise out before its end, and a ramp saves more than the laws promise.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sgdtheory._common.arguments import positive_number, whole_number
from sgdtheory._common.sheets import Quantity, Sheet, Table, between, number
from sgdtheory._common.shown import Shown
from sgdtheory.fits.even_ramps import EvenRamp, RampTarget, Stages, nearest_even_ramp
from sgdtheory.fits.steps_law import StepsLaw

LEAST_SAVED = 5e-4  # A smaller share of the steps is printed as 0.0%.


@dataclass(frozen=True, eq=False)
class BatchRamp(Shown):
    """Batch sizes of the stages of a run; made by `batch_ramp`.

    Attributes:
        starts: (k,) samples seen before each stage.
        batch_sizes: (k,) of the stages, rounded; neighbours may round to the same.
        noise_scales: (k,) 𝓑_j.
        steps, samples: of the whole run.
        constant_steps: that a constant batch size takes with as many samples.
        product: (S/S_min − 1)(E/E_min − 1) of the best ramp, before rounding: 1 for a constant batch size.
        remark: what the laws do not tell; "" if nothing.
        multiple: batch sizes are multiples of it.
    """

    starts: np.ndarray
    batch_sizes: np.ndarray
    noise_scales: np.ndarray
    steps: float
    samples: float
    constant_steps: float
    product: float
    remark: str
    multiple: int = 1

    @cached_property
    def stages(self) -> Stages:
        """(start in samples, batch size) of each stage, whole numbers; neighbours of one batch size are one stage."""
        starts = np.round(self.starts).astype(int).tolist()
        sizes = np.round(self.batch_sizes).astype(int).tolist()
        return tuple(
            pair for k, pair in enumerate(zip(starts, sizes, strict=True)) if k == 0 or sizes[k - 1] != pair[1]
        )

    @cached_property
    def target(self) -> RampTarget:
        """Target that a trainer's run has to reach: the last one of the laws, within the samples of this ramp."""
        lengths = np.diff(self.starts, append=self.samples) / (self.batch_sizes + self.noise_scales)
        return RampTarget(lengths, self.noise_scales, round(self.samples))

    @cached_property
    def even(self) -> EvenRamp:
        """The nearest ramp by equal increments, by the rule of Megatron-LM's `--rampup-batch-size`.

        It reaches the target within the samples of this ramp in the fewest steps. Where no such ramp takes fewer than a
        constant batch size it is that one, with increment 0.
        """
        return nearest_even_ramp(self.target, self.stages, unit=self.multiple)

    def pairs(self, sequence_length: int | None = None) -> str:
        """`START:SIZE` pairs, as `--step-batch-size-schedule` of Megatron-LM (since April 2026) reads them.

        Args:
            sequence_length: tokens of a sample. Megatron-LM reads starts as tokens if it is given `--seq-length`, as
                samples if not: give the same here.
        """
        length = 1 if sequence_length is None else whole_number("sequence_length", sequence_length, 1)
        return " ".join(f"{start * length}:{size}" for start, size in self.stages)

    @property
    def linear(self) -> tuple[int, int, int] | None:
        """(start, increment, ramp-up samples) of `even`, the nearest ramp by equal increments.

        As `--rampup-batch-size` of older Megatron-LM and `model.rampup_batch_size` of NeMo read it, with `even.last` as
        the global batch size. None where no such ramp takes fewer steps than a constant batch size.
        """
        return (self.even.start, self.even.increment, self.even.samples) if self.even.count else None

    def saving(self, steps: int) -> str:
        """Return a sentence on the steps that a trainer takes, beside those at a constant batch size."""
        saved = 1 - steps / self.constant_steps
        if len(self.stages) == 1:
            return f"{steps:,} steps."
        more = "fewer" if saved >= 0 else "more"
        return f"{steps:,} steps, {abs(saved):.1%} {more} than at a constant batch size with the same samples."

    def verdict(self, laws: Sequence[StepsLaw], level: float = 0.95) -> str:
        """Return a sentence where no ramp is worth it; empty where one is, or where there is one target.

        Args:
            laws: of the steps to each target, as `batch_ramp` took them.
            level: of the intervals of b/a.
        """
        begin = "No ramp is worth it"
        if len(laws) == 1:
            return ""
        if len(self.stages) == 1:
            size = self.stages[0][1]
            return f"{begin}: in multiples of {self.multiple} the best batch size of all stages is {size:,}."
        # Where the noise scale stays the same along the run, all ratios b/a are equal, and no ramp saves steps.
        ends = np.array([law.interval("b/a", level) for law in laws if law.freedom]).reshape(-1, 2)
        if len(ends) < 2 or ends[:, 0].max() > ends[:, 1].min():
            return ""
        saved = 1 - self.target.steps(self.stages) / self.constant_steps
        saves = f"the {saved:.1%} of the steps that they save" if saved > LEAST_SAVED else "any steps that they save"
        constant = self.multiple * round(self.samples / self.constant_steps / self.multiple)
        return (
            f"{begin} by these measurements: one noise scale, {between(ends[:, 0].max(), ends[:, 1].min())}, lies in "
            f"the {level:.0%} intervals of all targets, so that the stages below and {saves} may be noise. The "
            f"constant batch size {constant:,} takes {self.constant_steps:,.0f} steps."
        )

    def sheet(self, sequence_length: int | None = None) -> Sheet:
        """Return the stages, and the flags of Megatron-LM for them; `sequence_length` is as in `pairs`."""
        first = [start for start, _ in self.stages]
        ends = [*np.searchsorted(np.round(self.starts), first), self.starts.size]
        # A stage may join several noise scales: the first and the last are shown.
        scales = [self.noise_scales[begin:end] for begin, end in itertools.pairwise(ends)]
        quantities = [
            Quantity("", "from sample", first),
            Quantity("", "batch size", [size for _, size in self.stages]),
            Quantity("", "noise scale", [" … ".join(dict.fromkeys(map(number, each[[0, -1]]))) for each in scales]),
        ]
        names = "starts", "batch_sizes", "noise_scales", "steps", "samples", "constant_steps"
        settings = {name: getattr(self, name) for name in names} | {
            "pairs": self.pairs(sequence_length),
            "rampup_batch_size": self.linear,
            "rampup_steps": self.even.steps,
            "rampup_global_batch_size": self.even.last,
        }
        title = f"batch sizes along the run of {number(self.samples)} samples"
        return Sheet(title, [Table(quantities)], [self.remark], settings, copy="\n".join(self._flags(sequence_length)))

    def _flags(self, sequence_length: int | None) -> Iterator[str]:
        """Sentences and flags for Megatron-LM, for versions without the first flag too."""
        unit = "samples" if sequence_length is None else f"tokens, with --seq-length {sequence_length}"
        steps = self.saving(self.target.steps(self.stages))
        yield f"{steps} Megatron-LM (since April 2026; starts in {unit}):"
        yield f'--step-batch-size-schedule "{self.pairs(sequence_length)}"'
        if len(self.stages) == 1:
            return
        steps = self.saving(self.even.steps)
        if self.linear is None:
            yield f"No linear ramp for older versions takes fewer steps than a constant batch size; {steps}"
            yield f"--global-batch-size {self.even.last}"
            return
        first, increment, samples = self.linear
        yield f"The nearest linear ramp, for older versions, always in samples; {steps}"
        yield f"--rampup-batch-size {first} {increment} {samples} --global-batch-size {self.even.last}"


def batch_ramp(laws: Sequence[StepsLaw], *, num_samples: float | None = None, multiple: int = 1) -> BatchRamp:
    """The batch sizes along a run that save the most steps, from laws at several targets of the same run.

    >>> import sgdtheory as st
    >>> def law(a, b):
    ...     return st.fit_steps_law([64, 256, 1024, 4096], [a + b / batch for batch in (64, 256, 1024, 4096)])
    >>> ramp = st.batch_ramp([law(500, 100e3), law(1500, 900e3), law(4000, 6e6)], multiple=64)
    >>> ramp.pairs()
    '0:576 388000:1088 2276000:1728'
    >>> round(ramp.steps), round(ramp.constant_steps), round(ramp.product, 2)
    (7860, 8213, 0.92)

    Args:
        laws: of the steps to each target, with α = 1; the last target is the one with the largest b.
        num_samples: to spend on the run; None: as many as make S/S_min − 1 and E/E_min − 1 equal.
        multiple: batch sizes are multiples of it.

    Returns:
        BatchRamp; one stage with one law. Stages that noise has put out of order, with a or b that does not grow from
        one target to the next, are joined, and the remark says so.

    Raises:
        ValueError: no laws, laws with another α or without a plateau, or fewer samples than the last b.
    """
    multiple = whole_number("multiple", multiple, 1)
    if not laws or not all(isinstance(law, StepsLaw) and law.alpha == 1 and law.a and law.b for law in laws):
        raise ValueError("laws must be one StepsLaw a target, with α = 1 and both a and b above 0; leave others out")
    a, b, joined = _growing(*np.array(sorted((law.b, law.a) for law in laws)).T[::-1])
    scales, lengths = np.diff(b, prepend=0) / np.diff(a, prepend=0), np.diff(a, prepend=0)
    mean_root = float(np.sqrt(scales) @ lengths)
    rate = b[-1] / a[-1]  # r, samples that a step may cost
    if num_samples is not None:
        spent = positive_number("num_samples", num_samples) - b[-1]
        if spent <= 0:
            raise ValueError(
                f"num_samples must exceed b = {b[-1]:.6g} of the last target, with fewer no batch size reaches it, "
                f"got {num_samples:g}"
            )
        rate = (spent / mean_root) ** 2
    sizes = np.maximum(multiple, multiple * np.round(np.sqrt(rate * scales) / multiple))
    samples = (sizes + scales) * lengths
    total = float(samples.sum())
    remarks = [_extrapolation(sizes, laws)]
    if joined:
        text = f"{joined} of {len(laws)} targets have an a or b no smaller than a later one's: joined with the next"
        remarks.insert(0, text)
    return BatchRamp(
        np.concatenate([[0.0], np.cumsum(samples)[:-1]]),
        sizes,
        scales,
        float((samples / sizes).sum()),
        total,
        float(a[-1] + b[-1] / ((total - b[-1]) / a[-1])),
        mean_root**2 / float(a[-1] * b[-1]),
        "; ".join(filter(None, remarks)),
        multiple,
    )


def _extrapolation(sizes: np.ndarray, laws: Sequence[StepsLaw]) -> str:
    """Return the remark that batch sizes lie outside of those at which all targets were measured; empty if none do."""
    low = max(law.batch_sizes.min() for law in laws)
    high = min(law.batch_sizes.max() for law in laws)
    outside = np.unique(sizes[(sizes < low) | (sizes > high)])
    if not outside.size:
        return ""
    return (
        f"batch sizes {', '.join(map(number, outside))} lie outside of those measured, {number(low)} … {number(high)}: "
        "there the ramp relies on the law a + b/B alone"
    )


def _growing(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """a and b of the targets up to which both have grown since the one before, the last always; how many were left."""
    kept = [a.size - 1]
    for place in range(a.size - 2, -1, -1):
        if a[place] < a[kept[-1]] and b[place] < b[kept[-1]]:
            kept.append(place)
    places = kept[::-1]
    return a[places], b[places], a.size - len(places)
