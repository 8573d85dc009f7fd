"""How much data do small batches cost signSGD and Adam? The best and the smallest useful batch size."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.data_needed import samples_to
from experiments._lib.optimizers import FAST, METHODS, SGD, SIGN, SLOW, Pair, decayed
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.u_shapes import HALF_LIFE, SIGN_LIMIT, Curve, Row, Shape, curve_of, shape_of
from experiments._lib.u_shapes_figure import figure

Kind = Literal["curve", "ends", "half-life"]
ADAM_WASTE = {FAST: (1.0351, 1.0086), SLOW: (1.0010, 1.0002)}  # N/A² of T38, β₁ = 0.9, at B = 1 and B → ∞
NO_SHARE = 0.02  # |c/b| that a + b/B, which is not exact, leaves open
SEARCHED = 6e-4  # relative error of a tuned risk of an equivalent, twice what its search allows


@dataclass(frozen=True)
class Config:
    """One problem, data sizes, noise and memories of v.

    Attributes:
        exponents: a and b.
        methods: whose risk against B is computed.
        curve_samples: D of those curves, the last of which is fitted.
        batch_sizes: B of those curves.
        methods_of_ends: whose best and useful batch sizes are computed,
        num_samples: D, at σ² = 1,
        noise_variances: σ², at the middle D, and
        memories: β₂, at the middle D and σ² = 1.
        reference_batch: B at which the fixed half-life is that of β₂ = 0.95.
        fitted: B up to this share of B* are fitted.
    """

    exponents: Pair = (1.5, 2.0)
    methods: tuple[str, ...] = (SGD, SIGN, SLOW, FAST)
    curve_samples: tuple[float, ...] = (1e6,)
    batch_sizes: tuple[float, ...] = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
    methods_of_ends: tuple[str, ...] = (SIGN, FAST)
    num_samples: tuple[float, ...] = (1e3, 1e4, 1e5, 1e6)
    noise_variances: tuple[float, ...] = (0.01, 10.0)
    memories: tuple[float, ...] = (0.9, 0.999)
    reference_batch: float = 64.0
    fitted: float = 1.0

    @property
    def middle(self) -> float:
        """The D at which σ² and β₂ vary."""
        return self.num_samples[len(self.num_samples) // 2]


SCALES = {
    "quick": Config(
        methods=(SGD, SIGN, FAST),
        curve_samples=(1e5,),
        batch_sizes=(1, 2, 4, 8, 16, 64, 256),
        methods_of_ends=(SIGN,),
        num_samples=(1e4,),
        noise_variances=(),
        memories=(),
    ),
    "full": Config(),
}
UNITS = {
    "kind": "curve: risk and data of one B; ends: the useful batch sizes; half-life: risk with β₂ = exp(−B/S)",
    "method": "optimizer; linear decay, last iterate",
    "memory": "β₂; nan of SGD and signs",
    "noise_variance": "σ², units of y²",
    "num_samples": "D, samples",
    "batch_size": "B, samples; of ends B* without its rounding",
    "risk": "R(D, B), γ tuned, units of y²; of ends R_opt(D)",
    "samples_needed": "samples with which B reaches the least risk of its curve; nan of others",
    "smallest_batch_size": "the least B that 1.2 D samples allow; nan of others",
    "optimal_batch_size": "B of the least risk; nan of others",
}


class Item(NamedTuple):
    """A piece of work: a curve, or one cell of ends."""

    kind: Kind
    method: str
    memory: float
    noise_variance: float
    num_samples: float


def run(config: Config) -> Result:
    """Curves in B, their ends, and Adam at a fixed half-life."""
    start = time.perf_counter()
    found = map_on_cores(partial(_solve, config), _items(config))
    rows = [row for each in found for row in each]
    return Result(columns_of(rows), UNITS, _figures(config, rows), _verdicts(config, rows, time.perf_counter() - start))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"small_batches": figure(config, rows)}


def _items(config: Config) -> list[Item]:
    """Return the items, the longest first."""
    cells = [
        (name, _memory(name), 1.0, samples) for name, samples in product(config.methods_of_ends, config.num_samples)
    ]
    cells += [
        (name, _memory(name), noise, config.middle)
        for name, noise in product(config.methods_of_ends, config.noise_variances)
    ]
    cells += [(f"Adam, β₂ = {memory:g}", memory, 1.0, config.middle) for memory in config.memories]
    curves = [(name, _memory(name), 1.0, samples) for name, samples in product(config.methods, config.curve_samples)]
    half_life = Item("half-life", HALF_LIFE, np.nan, 1.0, config.curve_samples[-1])
    return [
        *(Item("ends", *cell) for cell in reversed(cells)),
        *(Item("curve", *cell) for cell in reversed(curves)),
        half_life,
    ]


def _memory(name: str) -> float:
    return {FAST: 0.95, SLOW: 0.999}.get(name, np.nan)


def _algorithm(name: str, memory: float) -> st.Algorithm:
    return decayed(st.Adam(beta1=0.9, beta2=memory)) if np.isfinite(memory) else METHODS[name]


def _solve(config: Config, item: Item) -> list[Row]:
    problem = st.PowerLaw(*config.exponents, noise_variance=item.noise_variance)
    if item.kind == "ends":
        algorithm = _algorithm(item.method, item.memory)
        found = st.critical_batch_size(problem, num_samples=item.num_samples, curve=False, algorithm=algorithm)
        ends = found.smallest_batch_size, found.optimal_batch_size
        return [Row(*item, found.real_batch_size, found.optimal_risk, np.nan, *ends)]
    return _curve(config, item, problem) if item.kind == "curve" else _half_life(config, item, problem)


def _sizes(config: Config, samples: float) -> np.ndarray:
    sizes = np.array(config.batch_sizes, dtype=float)
    return sizes[sizes * 16 <= samples]


def _curve(config: Config, item: Item, problem: st.PowerLaw) -> list[Row]:
    """R(D, B) at every B, and the data that each needs for the least of them."""
    sizes = _sizes(config, item.num_samples)
    algorithm = _algorithm(item.method, item.memory)
    best = st.optimal_learning_rate(problem, batch_size=sizes, num_samples=item.num_samples, algorithm=algorithm)
    risks = np.asarray(best.risk)
    least = float(risks.min())
    needed = [samples_to(problem, algorithm, size, item.num_samples, least) for size in sizes.tolist()]
    return [Row(*item, *each) for each in zip(sizes.tolist(), risks.tolist(), needed, strict=True)]


def _half_life(config: Config, item: Item, problem: st.PowerLaw) -> list[Row]:
    """`β₂ = 0.95^{B/reference}` at every B at which it is above β₁² = 0.81."""
    rows: list[Row] = []
    for size in _sizes(config, item.num_samples).tolist():
        memory = 0.95 ** (size / config.reference_batch)
        if memory > 0.81:
            algorithm = decayed(st.Adam(beta1=0.9, beta2=memory))
            best = st.optimal_learning_rate(problem, batch_size=size, num_samples=item.num_samples, algorithm=algorithm)
            rows.append(Row(*item._replace(memory=memory), size, float(best.risk)))
    return rows


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    return (
        _u_shape(config, rows, seconds),
        _control(config, rows),
        _sign_waste(config, rows),
        _adam_waste(config, rows),
        _smallest(rows),
        _half_life_verdict(config, rows),
        _law(config, rows),
        _law_control(config, rows),
    )


def _last(config: Config, rows: list[Row], name: str) -> Curve:
    return curve_of(rows, name, config.curve_samples[-1])


def _u_shape(config: Config, rows: list[Row], seconds: float) -> Verdict:
    found = {name: _last(config, rows, name) for name in config.methods if name != SGD}
    lost = {name: curve.lost for name, curve in found.items()}
    text = "; ".join(
        f"{name} {lost[name]:.2%}, least at B = {curve.batch[curve.risk.argmin()]:g}" for name, curve in found.items()
    )
    clear = [name for name, share in lost.items() if share > 3 * SEARCHED]
    return Verdict(
        "the risk of signSGD and of Adam is U-shaped in B",
        f"R(D, 1) divided by the least R(D, B), minus 1, at D = {config.curve_samples[-1]:.0e} with γ tuned. Holds "
        f"for a method if this is above {3 * SEARCHED:.1%}, three times the tolerance of the search: {text}",
        "above 0",
        f"{len(clear)} of {len(lost)} methods",
        None,
        "holds" if len(clear) == len(lost) else "inconclusive" if SIGN in clear else "fails",
        seconds,
    )


def _control(config: Config, rows: list[Row]) -> Verdict:
    curve = _last(config, rows, SGD)
    falls = float((1 - curve.risk[1:] / curve.risk[:-1]).max())
    return Verdict(
        "control: the risk of SGD never falls as B grows",
        f"Largest relative fall of R(D, B) from one B to the next at D = {config.curve_samples[-1]:.0e} (T23). "
        "Holds up to 1e-6",
        "at most 0",
        falls,
        None,
        "holds" if falls <= 1e-6 else "fails",
    )


def _sign_waste(config: Config, rows: list[Row]) -> Verdict:
    wastes = [curve_of(rows, SIGN, samples).wasted for samples in config.curve_samples]
    text = ", ".join(f"{waste:.1%} at D = {each:.0e}" for waste, each in zip(wastes, config.curve_samples, strict=True))
    most = SIGN_LIMIT - 1
    return Verdict(
        "signSGD with B = 1 needs up to π/2 times the data of the best batch size",
        f"Data with which B = 1 reaches the least risk of a curve, divided by the data of the best B, minus 1: "
        f"{text}. Holds if this is at most {most:.1%} + 1% and at least three quarters of {most:.1%}",
        most,
        wastes[-1],
        (min(wastes), max(wastes)),
        "holds" if 0.75 * most <= wastes[-1] and max(wastes) <= most + 0.01 else "fails",
    )


def _adam_waste(config: Config, rows: list[Row]) -> Verdict:
    """Up to the N/A² of B = 1 over that of large batches."""
    found = {name: _last(config, rows, name).wasted for name in ADAM_WASTE if name in config.methods}
    most = {name: ADAM_WASTE[name][0] / ADAM_WASTE[name][1] - 1 for name in found}
    text = "; ".join(
        f"{name} {waste:.2%} (at most {most[name]:.2%}; {ADAM_WASTE[name][0] - 1:.2%} more than without fluctuations)"
        for name, waste in found.items()
    )
    within = all(waste <= most[name] + 0.005 for name, waste in found.items())
    return Verdict(
        "Adam with B = 1 needs up to N/A² times the data of the best batch size",
        f"Data with which B = 1 reaches the least risk of a curve, divided by the data of the best B, minus 1, at D = "
        f"{config.curve_samples[-1]:.0e} and β₁ = 0.9. Holds if this is at most 0.5% above the prediction, N/A² at B "
        f"= 1 divided by N/A² at B → ∞, minus 1: {text}",
        most[FAST],
        found[FAST],
        (min(found.values()), max(found.values())),
        "holds" if within else "fails",
    )


def _smallest(rows: list[Row]) -> Verdict:
    """κ_3/κ_∞ = 1.178 < 1.2 < κ_2/κ_∞ = 1.273."""
    ends = [row for row in rows if row.kind == "ends"]
    text = "; ".join(
        f"{row.method}, D = {row.num_samples:.0e}, σ² = {row.noise_variance:g}: {row.smallest_batch_size:g}, "
        f"{row.optimal_batch_size:g}, {row.batch_size:.4g}"
        for row in ends
    )
    signs = [row.smallest_batch_size for row in ends if row.method == SIGN]
    return Verdict(
        "the smallest useful batch size of signSGD is 3, whatever D and σ²",
        f"Smallest, best and largest useful B for an overhead of 20%. Holds if the smallest one of signSGD is always "
        f"3, the smallest B with κ_B/κ_∞ ≤ 1.2: {text}",
        3.0,
        f"{min(signs):g} … {max(signs):g}",
        (min(signs), max(signs)),
        "holds" if set(signs) == {3.0} else "fails",
    )


def _half_life_verdict(config: Config, rows: list[Row]) -> Verdict:
    """arXiv 2507.07101 says so of language models."""
    kept, fixed = (_last(config, rows, name) for name in (HALF_LIFE, FAST))
    both = np.isin(fixed.batch, kept.batch)
    changes = kept.risk / fixed.risk[both] - 1
    text = ", ".join(f"{change:+.2%} at B = {size:g}" for size, change in zip(kept.batch, changes, strict=True))
    rest = kept.lost
    return Verdict(
        "with the half-life of v fixed in samples small batches lose nothing",
        f"R(D, 1) divided by the least R(D, B), minus 1, for β₂ = 0.95^(B/{config.reference_batch:g}) at D = "
        f"{config.curve_samples[-1]:.0e}. Holds up to {SEARCHED:.2%}. With β₂ = 0.95 at every B it is "
        f"{fixed.lost:.2%}. Risk relative to that with β₂ = 0.95: {text}",
        f"at most {SEARCHED:.2%}",
        rest,
        None,
        "holds" if rest <= SEARCHED else "fails",
    )


def _shapes(config: Config, rows: list[Row]) -> dict[str, Shape]:
    """Return the shape of each method's steps up to a share of its B*."""
    found = {}
    for name in config.methods:
        curve = _last(config, rows, name)
        useful = curve.batch[curve.samples <= 1.2 * config.curve_samples[-1]]
        found[name] = shape_of(curve, config.fitted * float(useful.max()))
    return found


def _law(config: Config, rows: list[Row]) -> Verdict:
    shapes = {name: shape for name, shape in _shapes(config, rows).items() if name != SGD}
    text = "; ".join(
        f"{name} {shape.law:.2%} without c, {shape.longer:.2%} with it, c/b = {shape.share:.3f}"
        for name, shape in shapes.items()
    )
    sign = shapes[SIGN]
    wastes = {name: ADAM_WASTE[name][0] / ADAM_WASTE[name][1] - 1 for name in shapes if name != SIGN}
    apart = [abs(shapes[name].share - most) for name, most in wastes.items()]
    holds = sign.longer < sign.law / 2 and abs(sign.share - 0.5) <= 0.1 and max(apart) <= NO_SHARE
    return Verdict(
        "steps of signSGD are a + b/B + c/B² with c = b/2, of Adam with a small c",
        f"Root mean square of the relative errors of two laws, fitted to the steps that reach the least risk, for B "
        f"up to B* and D = {config.curve_samples[-1]:.0e}. Holds if c at least halves the error of signSGD, if c/b of "
        f"signSGD is within 0.1 of T37's 0.5, and if c/b of Adam is within {NO_SHARE:g} of T38's waste: {text}",
        0.5,
        sign.share,
        None,
        "holds" if holds else "fails",
    )


def _law_control(config: Config, rows: list[Row]) -> Verdict:
    shape = _shapes(config, rows)[SGD]
    return Verdict(
        "control: steps of SGD are a + b/B",
        f"The same fits: {shape.law:.2%} without c, {shape.longer:.2%} with it. Holds if |c/b| is at most {NO_SHARE:g}",
        0.0,
        shape.share,
        None,
        "holds" if abs(shape.share) <= NO_SHARE else "fails",
    )
