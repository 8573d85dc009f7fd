"""The flags of a problem, and of B, γ and D, which commands on power-law regression share."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from sgdtheory import risk as exact
from sgdtheory._common.sheets import Quantity
from sgdtheory.algorithms import Algorithm
from sgdtheory.cli.algorithm import ALGORITHM_GROUPS
from sgdtheory.cli.flags import Kind, UnreadableError
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, LeastSquares, PowerLaw, read_spectrum


def _share(word: str) -> float:
    value = float(word[:-1]) / 100 if word.endswith("%") else float(word)
    if value > 1 and not word.endswith("%"):
        share, percent = f"{value / 100:g}", f"{100 * value:g}%"
        raise UnreadableError(f"is a share: {word} would be {percent}; write {word}% or {share}, or {percent} if meant")
    return value


# 0.2 or 20%; a bare number above 1 is refused, since both 20 and 0.2 are written for 20%.
Overhead = Annotated[float, Kind("SHARE", "a share such as 0.2 or 20%", _share)]


@dataclass(frozen=True, kw_only=True)
class ConventionFlags:
    """Definition of B* in a fit, and the level of its intervals."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "definition of B* and of intervals": ("reference", "overhead", "degradation", "margin", "level"),
    }

    reference: float | None = None
    """Reference batch size of B*, in the regime of linear scaling; None: the smallest that all groups have."""
    overhead: Overhead = 0.2
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%."""
    level: float = 0.95
    """Level of the confidence intervals."""


@dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    """A power law, or a spectrum from a file."""

    NEEDED_WITHOUT: ClassVar[dict[str, tuple[str, ...]]] = {"--spectrum": ("--capacity", "--source")}
    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "problem": (
            *("capacity", "source", "dim", "spectrum", "noise_variance"),
            *("precondition", "samples", "sample_seed"),
        ),
        "settings": ("batch_size", "num_steps", "learning_rate", "num_samples"),
        "algorithms": ("algorithm", "points"),
        **ALGORITHM_GROUPS,
    }

    capacity: float | None = None
    """Exponent a > 1 of the eigenvalues, λ_i = i^−a."""
    source: float | None = None
    """Exponent b > 1 of the initial risk, s_i = i^−b."""
    dim: int | None = None
    """Number of directions of the power law; None: infinitely many."""
    spectrum: Path | None = None
    """CSV or .npz file with eigenvalues and signal, instead of a power law."""
    noise_variance: float | None = None
    """Variance σ² of the label noise; None: the spectrum file's, or 1."""
    precondition: float = 0.0
    """Power θ of the preconditioner: steps go along H^−θ g."""
    samples: int | None = None
    """Size N of a data set whose rows are drawn with replacement; None: every sample is new."""
    sample_seed: int | None = None
    """Seed of the data set; None: the mean over all data sets."""

    @cached_property
    def problem(self) -> PowerLaw | LeastSquares | FiniteSampleProblem:
        """Return the problem that the flags describe."""
        endless = self.endless_problem
        if self.samples is None:
            if self.sample_seed is not None:
                raise ValueError(f"sample_seed belongs to a data set, got {self.sample_seed}; give its samples as well")
            return endless
        try:
            return endless.with_samples(self.samples, seed=self.sample_seed)
        except ValueError as error:
            own = re.sub("^seed", "sample_seed", re.sub("^num_samples", "samples", str(error)))
            raise ValueError(own) from None

    @property
    def fresh_problem(self) -> PowerLaw | LeastSquares:
        """Return the problem for a command whose theory is about fresh samples only; refuse a data set."""
        if self.samples is not None:
            raise ValueError(f"samples must be left out: this command needs fresh samples, got {self.samples:g} in all")
        return self.endless_problem

    @property
    def endless_problem(self) -> PowerLaw | LeastSquares:
        """Return the problem all of whose samples are new."""
        law = {name: getattr(self, name) for name in ("capacity", "source", "dim")}
        if self.spectrum is None:
            plain = PowerLaw(**law, noise_variance=1.0 if self.noise_variance is None else self.noise_variance)
        elif given := [name for name, value in law.items() if value is not None]:
            raise ValueError(f"{given[0]} belongs to a power law, not to a spectrum file; leave one of them out")
        else:
            plain = read_spectrum(self.spectrum, noise_variance=self.noise_variance)
        try:
            return plain.preconditioned(self.precondition) if self.precondition else plain
        except ValueError as error:
            raise ValueError(str(error).replace("power", "precondition", 1)) from None

    @property
    def in_json(self) -> dict[str, Any]:
        """Return what the flags say of the problem."""
        own = {name: getattr(self, name) for name in ("capacity", "source", "dim")}
        if self.spectrum is not None:
            own = {"spectrum": str(self.spectrum), "dim": self.problem.dim}
        also: dict[str, Any] = {"precondition": self.precondition} if self.precondition else {}
        if self.samples is not None:
            also |= {"samples": self.samples, "sample_seed": self.sample_seed}
        return own | {"noise_variance": self.problem.noise_variance} | also

    @property
    def title(self) -> str:
        """Return the problem in symbols."""
        variance = self.problem.noise_variance
        if self.spectrum is not None:
            parts = [f"{self.spectrum.name}: {self.problem.dim} directions", f"σ² = {variance:.4g}"]
        else:
            parts = [f"λ_i = i^−{self.capacity:g}, s_i = i^−{self.source:g}", f"σ² = {variance:g}"]
            parts += [] if self.dim is None else [f"d = {self.dim:g}"]
        if self.precondition:
            parts.append(f"preconditioned with θ = {self.precondition:g}")
        if self.samples is not None:
            seed = "" if self.sample_seed is None else f" (seed {self.sample_seed})"
            parts.append(f"N = {self.samples:g}{seed}")
        return ", ".join(parts)

    @property
    def title_in_mathematics(self) -> str:
        """Return the problem in the mathematics of a figure's title."""
        from sgdtheory.plotting.style import plain_label  # matplotlib is slow to import

        name = "" if self.spectrum is None else self.spectrum.name
        title = re.sub(r"i\^−([^,]+)", r"i^{-\1}", self.title.replace(name, plain_label(name), 1))
        return re.sub(r"([λs]_i|σ²|\bd) = ([^,]+)", r"$\1 = \2$", title).replace("σ²", r"\sigma^2")


@dataclass(frozen=True, kw_only=True)
class SettingsFlags:
    """One batch size, learning rate and number of samples, or several of equal number."""

    batch_size: tuple[float, ...]
    """Batch size B."""
    learning_rate: tuple[float, ...]
    """Learning rate γ, in 1/λ_1; with {nonlinear} in units of the weights, √(s_i/λ_i)."""
    num_samples: tuple[float, ...]
    """Number of samples D; there are as many steps as they allow."""

    @property
    def values(self) -> dict[str, Any]:
        """Return batch_size, learning_rate and num_samples, scalars or arrays."""
        if not (self.batch_size and self.learning_rate and self.num_samples):
            raise ValueError("batch_size, learning_rate and num_samples need at least one value each")
        return {name: values[0] if len(values) == 1 else np.array(values) for name, values in vars(self).items()}

    def stability_limit(self, problem: AbstractProblem, algorithm: Algorithm) -> Any:
        """Return the largest stable γ; None of a schedule, which has none, and of methods of which it is not known."""
        if not (algorithm.linear and algorithm.steady):
            return None
        return exact.max_stable_learning_rate(problem, batch_size=self.values["batch_size"], algorithm=algorithm)

    @property
    def quantities(self) -> list[Quantity]:
        """Return the settings as quantities of a table."""
        labels = {"batch_size": "batch size B", "learning_rate": "learning rate γ", "num_samples": "samples D"}
        return [Quantity(name, label, self.values[name], digits=6) for name, label in labels.items()]
