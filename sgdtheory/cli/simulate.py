"""`sgdtheory simulate`: simulated risk beside the exact one and the bound."""

import re
from typing import Annotated, Any, Literal

import numpy as np

from sgdtheory import simulation
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.algorithms import Algorithm, LastIterate
from sgdtheory.bounds import covered, theorem7
from sgdtheory.cli.algorithm import SimulatedAlgorithmFlags, has_risk
from sgdtheory.cli.distributed import DistributedFlags
from sgdtheory.cli.function_command import Keywords, Output
from sgdtheory.cli.settings import ProblemFlags, SettingsFlags
from sgdtheory.risk import excess_risk
from sgdtheory.simulation import Simulation

HEAVY_TAILED = 0.9  # Above this share of the stability limit, a remark says that z means little.
SEEDS = 2**32


def simulate(
    regression: ProblemFlags,
    settings: SettingsFlags,
    algorithm: SimulatedAlgorithmFlags,
    processes: DistributedFlags,
    num_replicas: int = 1024,
    seed: int = 0,
    simulated_dim: int | None = None,
    sampler: Literal["sufficient", "explicit"] = "sufficient",
    law: Literal["gaussian", "rademacher", "student_t"] = "gaussian",
    dtype: Literal["float32", "float64"] = "float32",
    **options: Annotated[Any, Keywords(simulation.simulate, "outputs quantity memory_limit")],
) -> Output | None:
    """Simulate averaged mini-batch SGD on power-law regression; print mean ± s.e., exact risk, Theorem 7's bound and z.

    Each of batch size, learning rate and number of samples takes one value or several of equal number. The theorem is
    about averaged SGD with a constant step, and is left out with another algorithm; so is a risk that theory does not
    know. With infinitely many directions methods that are not linear (sign, …) and clipping need --simulated-dim.

    Args:
        num_replicas: Number of independent replicas, at least 2.
        seed: Seed of the random key; the same seed gives the same numbers.
        simulated_dim: Number of directions to simulate; None: as many as the standard error asks for.
        sampler: Draw what the batch does (O(d) a step), or the batch itself.
        law: Law of the data's coordinates, with --sampler explicit.
        dtype: Precision of the simulation.
    """
    if not 0 <= seed < SEEDS:
        raise ValueError(f"seed must be a whole number from 0 to {SEEDS - 1}, got {seed}")
    if num_replicas < 2:
        raise ValueError(f"num_replicas must be at least 2 for a standard error, got {num_replicas:g}")
    quantity, outputs = options["quantity"], options["outputs"]
    options |= {"sampler": sampler, "law": law, "dtype": dtype, "num_replicas": num_replicas, "dim": simulated_dim}
    with processes.joined() as prints:
        import jax

        try:
            found = simulation.simulate(
                jax.random.key(seed),
                regression.problem,
                **settings.values,
                **options,
                progress=prints,
                algorithm=algorithm.made,
            )
        except ValueError as error:  # on the command line, dim is the problem's
            message = str(error).replace("pass dim=", "pass --simulated-dim ")
            raise ValueError(re.sub(r"^dim\b", "simulated_dim", message)) from None
    end = processes.leave if found.interrupted else lambda: None
    if not prints:
        end()
        return None
    beside = _theory(found, regression, settings, algorithm.made, quantity, outputs)
    run = "" if outputs == 1 else f", {outputs:g} outputs"
    returned = "last" if algorithm.made.average == LastIterate() else "averaged"
    title = f"excess risk of the {returned} iterate ({quantity}), {sampler} sampler, {law} data{run}{algorithm.title}"
    said = algorithm.in_json | ({} if outputs == 1 else {"outputs": outputs})
    more = {"truncation": found.truncation and vars(found.truncation), "interrupted": found.interrupted}
    remarks = [*found.sheet().remarks]
    if not np.any(found.num_finished):
        return Output(Sheet(title, [], remarks, said | more), end=end)
    if law != "gaussian" and algorithm.made.linear:
        which = " and bound are those" if covered(algorithm.made) else " is that"
        remarks.append(f"exact risk{which} of Gaussian data")
    edge = settings.stability_limit(regression.problem, algorithm.made)
    if edge is not None and np.any((settings.values["learning_rate"] > HEAVY_TAILED * edge) & ~found.diverged.any(-1)):
        close = f"a learning rate exceeds {HEAVY_TAILED:g} of the stability edge"
        remarks.insert(0, f"{close}: rare replicas carry its expected risk, and z says little")
    quantities = [
        *settings.quantities,
        Quantity("mean", "simulated", found.mean, digits=5),
        Quantity("standard_error", "± s.e.", found.standard_error, digits=2),
        *beside,
        Quantity("num_finished", "replicas", found.num_finished),
        Quantity("num_diverged", "diverged", found.diverged.sum(-1)),
        Quantity("num_steps", "steps", found.num_steps),
    ]
    hidden = "num_finished", "num_diverged", "num_steps"
    return Output(Sheet(title, [Table(quantities, hidden=hidden)], remarks, said | more), end=end)


def _theory(
    found: Simulation,
    regression: ProblemFlags,
    settings: SettingsFlags,
    algorithm: Algorithm,
    quantity: str,
    outputs: int,
) -> list[Quantity]:
    """Return the theory's risks beside the simulation; an equivalent has the total risk of one output alone."""
    if not has_risk(algorithm) or not (algorithm.linear or quantity == "total" and outputs == 1):
        return []
    if getattr(algorithm.method, "basis", "eigenvectors") == "random":  # another rotation than the key's
        return []
    risk = getattr(excess_risk(regression.problem, **settings.values, algorithm=algorithm), quantity)
    name = "exact" if algorithm.linear and regression.samples is None else "equivalent"
    quantities = [Quantity(name, name, risk, digits=5), Quantity("z", "z", found.z_score(risk), digits=3)]
    if covered(algorithm) and regression.samples is None:
        bound = getattr(theorem7(regression.problem, **settings.values), quantity)
        with np.errstate(all="ignore"):
            ratio = risk / bound
        quantities += [Quantity("bound", "bound", bound), Quantity("ratio", "exact/bound", ratio, digits=3)]
    return quantities
