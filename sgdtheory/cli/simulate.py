"""`sgdtheory simulate`: simulated risk beside the exact one and the bound."""

import contextlib
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from rich.table import Table

from sgdtheory.algorithms import LastIterate
from sgdtheory.bounds import covered, theorem7
from sgdtheory.cli.algorithm import SimulatedAlgorithmCommand, has_risk
from sgdtheory.cli.distributed import DistributedCommand
from sgdtheory.cli.output import native_output_on_stderr, print_json, print_note, print_tables
from sgdtheory.cli.settings import SettingsCommand
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import excess_risk, max_stable_learning_rate
from sgdtheory.simulation import Simulation, simulate

HEAVY_TAILED = 0.9  # of the stability edge


@dataclass(frozen=True, kw_only=True)
class SimulateCommand(SettingsCommand, SimulatedAlgorithmCommand, DistributedCommand):
    """Simulate averaged mini-batch SGD on power-law regression; print mean ± s.e., exact risk, Theorem 7's bound and z.

    Each of batch size, learning rate and number of samples takes one value or several of equal number. The theorem is
    about averaged SGD with a constant step, and is left out with another algorithm; so is a risk that theory does not
    know. With infinitely many directions methods that are not linear (sign, …) and clipping need --simulated-dim.
    """

    num_replicas: float = 1024
    """Number of independent replicas, at least 2."""
    seed: int = 0
    """Seed of the random key: the same seed gives the same numbers."""
    simulated_dim: float | None = None
    """Number of directions to simulate; None: as many as the standard error asks for."""
    outputs: float = 1
    """Number of outputs, the rows of the weight matrix that muon is for; risks are summed over them."""
    sampler: Literal["sufficient", "explicit"] = "sufficient"
    """Draw what the batch does (O(d) a step), or the batch itself."""
    law: Literal["gaussian", "rademacher", "student_t"] = "gaussian"
    """Law of the data's coordinates, with --sampler explicit."""
    quantity: Literal["total", "bias", "variance"] = "total"
    """Everything, runs without label noise (bias), or runs from the optimum (variance)."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of the simulation."""
    memory_limit: float = 1e9
    """Bytes for the replicas that run at once."""

    def run(self) -> None:
        """Simulate and print; process 0 alone prints."""
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be a whole number from 0 to {2**32 - 1}, got {self.seed}")
        if self.num_replicas < 2:
            raise ValueError(f"num-replicas must be at least 2 for a standard error, got {self.num_replicas:g}")
        problem, settings = self.problem, self.settings
        with native_output_on_stderr() if self.distributed else contextlib.nullcontext():
            first = self.join()
            import jax

            try:
                simulation = simulate(
                    jax.random.key(self.seed),
                    problem,
                    **settings,
                    num_replicas=self.num_replicas,  # pyright: ignore[reportArgumentType]
                    outputs=self.outputs,  # pyright: ignore[reportArgumentType]
                    sampler=self.sampler,
                    law=self.law,
                    quantity=self.quantity,
                    dim=self.simulated_dim,  # pyright: ignore[reportArgumentType]
                    dtype=self.dtype,
                    memory_limit=self.memory_limit,
                    progress=first,
                    algorithm=self.algorithm,
                )
            except ValueError as error:  # on the command line, dim is the problem's
                message = str(error).replace("pass dim=", "pass --simulated-dim ")
                raise ValueError(re.sub(r"^dim\b", "simulated-dim", message)) from None
        if first:
            self._show(simulation, problem, settings)
        if simulation.interrupted:
            self._leave()

    def _leave(self) -> NoReturn:
        """Exit after Ctrl-C; without waiting for processes that do not know of it."""
        if self.distributed:
            print_note("interrupted; stop the other processes too")
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        sys.exit(130)

    def _show(self, simulation: Simulation, problem: AbstractProblem, settings: dict[str, Any]) -> None:
        columns = {
            **settings,
            "mean": simulation.mean,
            "standard_error": simulation.standard_error,
            **self._theory(simulation, problem, settings),
            "num_finished": simulation.num_finished,
            "num_diverged": simulation.diverged.sum(-1),
            "num_steps": simulation.num_steps,
        }
        edge = np.inf  # a schedule has none, nor has a method of which theory knows little
        if self.algorithm.linear and self.algorithm.steady:
            edge = max_stable_learning_rate(problem, batch_size=settings["batch_size"], algorithm=self.algorithm)
        started = np.any(simulation.num_finished)
        if self.json:
            kept = simulation.truncation and vars(simulation.truncation)
            told = self.algorithm_in_json | ({} if self.outputs == 1 else {"outputs": int(self.outputs)})
            print_json(told | columns | {"truncation": kept, "interrupted": simulation.interrupted})
        elif started:
            self._print(columns)
        close = bool(np.any((settings["learning_rate"] > HEAVY_TAILED * edge) & ~simulation.diverged.any(-1)))
        for note in self._notes(simulation, close) if started else ["interrupted before any replica had finished"]:
            print_note(note)

    def _theory(self, simulation: Simulation, problem: AbstractProblem, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the theory's risks beside the simulation; an equivalent has the total risk of one output alone."""
        linear = self.algorithm.linear
        if not has_risk(self.algorithm) or not (linear or self.quantity == "total" and self.outputs == 1):
            return {}
        if getattr(self.algorithm.method, "basis", "eigenvectors") == "random":  # another rotation than the key's
            return {}
        risk = getattr(excess_risk(problem, **settings, algorithm=self.algorithm), self.quantity)
        found = {"exact" if linear and self.samples is None else "equivalent": risk, "z": simulation.z_score(risk)}
        if covered(self.algorithm) and self.samples is None:
            found["bound"] = getattr(theorem7(problem, **settings), self.quantity)
        return found

    def _print(self, columns: dict[str, Any]) -> None:
        rows = zip(*map(np.ravel, np.broadcast_arrays(*columns.values())), strict=True)
        returned = "last" if self.algorithm.average == LastIterate() else "averaged"
        table = Table(
            title=f"excess risk of the {returned} iterate ({self.quantity}), {self.sampler} sampler, {self.law} data"
            + ("" if self.outputs == 1 else f", {self.outputs:g} outputs")
            + self.algorithm_title
        )
        beside = [name for name in ("exact", "equivalent", "z", "bound") if name in columns]
        for header in ("B", "γ", "D", "simulated", *beside, *(("exact/bound",) if "bound" in columns else ())):
            table.add_column(header, justify="right")
        for row in rows:
            value = dict(zip(columns, row, strict=True))
            cells = [f"{value[name]:.6g}" for name in ("batch_size", "learning_rate", "num_samples")]
            cells.append(f"{value['mean']:.5g} ± {value['standard_error']:.2g}" if value["num_finished"] else "—")
            cells += [_beside(name, value[name]) for name in beside]
            if "bound" in columns:
                with np.errstate(all="ignore"):
                    cells.append(f"{value['exact'] / value['bound']:.3g}")
            table.add_row(*cells)
        print_tables(table)

    def _notes(self, simulation: Simulation, close: bool) -> list[str]:
        notes = []
        if close:
            notes.append(
                f"a learning rate exceeds {HEAVY_TAILED:g} of the stability edge: rare replicas carry its expected "
                "risk, and z says little"
            )
        kept = simulation.truncation
        if kept:
            note = f"{kept.dim} directions simulated, the others frozen with risk {kept.tail_risk:.3g}"
            note += "" if self.algorithm.linear else "; twice as many show whether that matters"
            shift, error = np.ravel(kept.shift), np.ravel(simulation.standard_error)
            telling = np.isfinite(shift) & np.isfinite(error) & (error > 0)
            if telling.any():
                largest = np.abs(shift[telling] / error[telling]).max()
                finished = " of what has finished" if simulation.interrupted else ""
                note += f"; this shifts means{finished} by {largest:.2g} standard errors at most"
            notes.append(note)
        if simulation.interrupted:
            notes.append("interrupted: the means are over the replicas that had finished")
        if self.law != "gaussian" and self.algorithm.linear:
            notes.append(
                f"exact risk{' and bound are those' if covered(self.algorithm) else ' is that'} of Gaussian data"
            )
        if np.any(simulation.diverged):
            notes.append(f"{int(simulation.diverged.sum())} replicas diverged (beyond the range of {self.dtype})")
        return notes


def _beside(name: str, value: float) -> str:
    """A cell of what theory knows."""
    if name == "z":
        return f"{value:+.2f}" if np.isfinite(value) else "—"
    return f"{value:.4g}" if name == "bound" else f"{value:.5g}"
