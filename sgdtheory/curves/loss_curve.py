"""Loss curves: what a training log holds, checked, and read from CSV files."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.arguments import checked_name, real_array, single_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.csv_rows import csv_rows
from sgdtheory._common.logged_losses import check_positive_losses, gap, gap_remark
from sgdtheory._common.sheets import shared

FEWEST_ROWS = 5
EXAMPLE = Path(str(resources.files("sgdtheory.curves") / "data"))
EXAMPLES = "25M", "100M", "400M"
WARMUP = 2160  # The example runs have a warm-up of this many steps.


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The loss along one training run.

    A row's loss is that before step `step`, its learning rate that of this step. In between learning rates are read on
    a straight line, but where one jumps the old one holds up to the row with the new one. Before the first row it
    rises from 0 over `warmup` steps to that of the first row.

    A loss of nan or inf with a finite one after it was not logged, and its row is left out. At the end of a run it
    means that the run diverged. The remark says which steps.

    Example:
        >>> import sgdtheory as st
        >>> losses = [5, 4.2, 3.9, 3.7, float("nan")]
        >>> curve = st.LossCurve(step=[100, 200, 300, 400, 500], learning_rate=3e-4, loss=losses)
        >>> print(curve.loss, curve.remark)
        [5.  4.2 3.9 3.7] cut at step 500, where the loss is nan

    Attributes:
        step: (K,) whole numbers ≥ 0, increasing.
        learning_rate: (K,) or one number, ≥ 0.
        loss: (K,) > 0.
        batch_size: (K,), one number, or None: not known.
        tokens: (K,) seen so far, or None: not known.
        warmup: steps, of a linear warm-up before the first row.
        name: of the run.
        group: of the runs that are to be fitted together, a model's name for example.
        remark: what was left out; empty if nothing.
        assumed: what a log does not say and was assumed, a sentence each.

    Raises:
        ValueError: shapes that do not fit, steps that do not increase, numbers outside their range, losses ≤ 0.
    """

    step: np.ndarray
    learning_rate: np.ndarray
    loss: np.ndarray
    batch_size: Any = None
    warmup: float = 0.0
    name: str = ""
    group: str = ""
    remark: str = ""
    tokens: Any = None
    assumed: tuple[str, ...] = ()

    def __init__(
        self,
        step: ArrayLike,
        learning_rate: ArrayLike,
        loss: ArrayLike,
        batch_size: ArrayLike | None = None,
        *,
        tokens: ArrayLike | None = None,
        warmup: float = 0.0,
        name: str = "",
        group: str = "",
        remark: str = "",
        assumed: Sequence[str] = (),
    ) -> None:
        steps = real_array("step", step)
        losses = real_array("loss", loss)
        if steps.ndim != 1 or losses.shape != steps.shape:
            raise ValueError(
                f"step and loss must be one-dimensional and of one length, got shapes {steps.shape} and {losses.shape}"
            )
        rates = _column("learning_rate", learning_rate, steps, positive=False)
        batches = None if batch_size is None else _column("batch_size", batch_size, steps, positive=True)
        seen = None if tokens is None else _column("tokens", tokens, steps, positive=False)
        _check_steps(steps, name)
        ramp = single_number("warmup", warmup)
        if not 0 <= ramp < np.inf:
            raise ValueError(f"warmup must be a number of steps, 0 or more, got {warmup}")
        check_positive_losses(steps, losses, "loss", name, "give another loss of the run")
        kept, left_out = _logged(steps, losses)
        if kept.sum() < FEWEST_ROWS - 1:
            raise ValueError(
                f"loss must have at least {FEWEST_ROWS - 1} finite rows, got {kept.sum()}; give a longer curve"
            )
        values = {
            "step": steps[kept],
            "learning_rate": rates[kept],
            "loss": losses[kept],
            "batch_size": None if batches is None else batches[kept],
            "tokens": None if seen is None else seen[kept],
            "warmup": ramp,
            "name": str(name),
            "group": str(group),
            "remark": "; ".join(filter(None, (remark, *left_out))),
            "assumed": tuple(assumed),
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)


def _column(name: str, value: Any, steps: np.ndarray, *, positive: bool) -> np.ndarray:
    values = real_array(name, value)
    if values.shape not in ((), steps.shape):
        raise ValueError(f"{name} must be one number or one for each of the {steps.size} rows, got {values.shape}")
    values = np.broadcast_to(values, steps.shape).astype(float)
    bad = ~(np.isfinite(values) & ((values > 0) if positive else (values >= 0)))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name} must be {'positive' if positive else '0 or more'}, got {values[row]} in row {row}")
    if not values.any():
        raise ValueError(f"{name} must not be 0 throughout: nothing is learnt; give the rates of the run")
    return values


def _check_steps(steps: np.ndarray, name: str) -> None:
    bad = ~(np.isfinite(steps) & (steps >= 0) & (steps == np.floor(steps)))
    if bad.any():
        raise ValueError(f"step must hold whole numbers of at least 0, got {steps[np.argmax(bad)]}")
    down = np.flatnonzero(np.diff(steps) <= 0)
    if down.size:
        first, second = steps[down[0] : down[0] + 2]
        where = f" in {name}" if name else ""
        raise ValueError(
            f"step must increase, got {second:g} after {first:g}{where}; sort the rows, and keep one of those that "
            "repeat"
        )


def _logged(steps: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """(K,) rows with a loss, up to the last finite one, and remarks on the others."""
    good = np.isfinite(losses) & (losses > 0)
    missing = gap(steps, losses, steps[good].max(initial=-1))
    remarks = [gap_remark(steps[missing], "loss")] if missing.any() else []
    lost = np.flatnonzero(~good & ~missing)
    if lost.size:
        value = "not finite" if np.isinf(losses[lost[0]]) else f"{losses[lost[0]]:g}"  # inf is a log's nan too
        remarks.append(f"cut at step {steps[lost[0]]:g}, where the loss is {value}")
    return good, remarks


def curve_remarks(curves: Sequence[LossCurve]) -> list[str]:
    """Return what was assumed of curves and left out of them, once for all curves that share it."""
    return shared(((curve.name, each) for curve in curves for each in (*curve.assumed, curve.remark)), "curves")


def read_loss_curves(
    paths: str | Path | Sequence[str | Path],
    *,
    step: str = "step",
    learning_rate: str = "learning_rate",
    loss: str = "loss",
    batch_size: str | float | None = None,
    run: str | None = None,
    group: str | None = None,
    warmup: float = 0.0,
) -> list[LossCurve]:
    """Read CSV files with a header, one row a logged step.

    >>> import pathlib, tempfile
    >>> import sgdtheory as st
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run7.csv"
    >>> _ = path.write_text("step,lr,loss\\n" + "".join(f"{t},3e-4,{3 + 20 / t}\\n" for t in range(10, 60, 10)))
    >>> (curve,) = st.read_loss_curves(path, learning_rate="lr")
    >>> print(curve.name, curve.step, curve.loss.round(2))
    run7 [10. 20. 30. 40. 50.] [5.   4.   3.67 3.5  3.4 ]

    Args:
        paths: one file or several.
        step, learning_rate, loss: names of the columns.
        batch_size: of the column with B, or B of all rows; None: not known.
        run: of the column that tells the runs of a file apart; None: each file is a run, named after the file.
        group: of the column that tells apart what is to be fitted on its own; None: one group.
        warmup: steps of linear warm-up before the first row.

    Returns:
        A LossCurve a run, in the order of the files.

    Raises:
        ValueError: no such file or column, an entry that is not a number, or what LossCurve refuses, with the file.

    Rows whose loss is blank are left out: it was not logged there, as in the rows of evaluations that other programs
    write between those of training. A loss of nan or inf with finite ones after it is left out in the same way; at the
    end it means that the run diverged.
    """
    columns = {"step": step, "learning_rate": learning_rate, "loss": loss}
    constant: dict[str, Any] = {}
    if isinstance(batch_size, str):
        columns["batch_size"] = batch_size
    elif batch_size is not None:
        constant["batch_size"] = batch_size
    found = []
    for path in [paths] if isinstance(paths, str | Path) else paths:
        runs: dict[tuple[str, str], dict[str, list[float]]] = {}
        for line, row in csv_rows(Path(path), [*columns.values(), *filter(None, (run, group))]):
            if not row[loss].strip():
                continue
            label = (row[run] if run else Path(path).stem), (row[group] if group else "")
            values = runs.setdefault(label, {key: [] for key in columns})
            for key, column in columns.items():
                values[key].append(_number(row[column], column, f"{path}, line {line}"))
        if not runs:
            raise ValueError(f"{path} has no rows with a loss; give a file with one row a logged step")
        for (name, of), values in runs.items():
            try:
                found.append(LossCurve(**values, **constant, warmup=warmup, name=name, group=of))  # pyright: ignore[reportArgumentType]
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
    return found


def _number(text: str, column: str, where: str) -> float:
    if not text.strip():
        raise ValueError(f"{where}: {column} is blank where a loss is logged; fill it in, or blank the loss too")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: {column} must be a number, got {text!r}") from None


def example_loss_curves(model: str = "100M") -> dict[str, LossCurve]:
    """Nine runs of a language model under nine learning-rate schedules (source: sgdtheory/curves/data/README.md).

    >>> import sgdtheory as st
    >>> curves = st.example_loss_curves("25M")
    >>> print(len(curves), curves["cosine_24000"].loss[[0, -1]])
    9 [4.1114 3.3044]

    Args:
        model: "25M", "100M" or "400M" parameters.

    Returns:
        Name → LossCurve.
    """
    size = checked_name("model", model, EXAMPLES)
    curves = read_loss_curves(EXAMPLE / f"loss_curves_{size}.csv", run="run", warmup=WARMUP)
    return {curve.name: _in_group(curve, size) for curve in curves}


def _in_group(curve: LossCurve, group: str) -> LossCurve:
    """Return the curve in another group."""
    return LossCurve(
        curve.step, curve.learning_rate, curve.loss, curve.batch_size, warmup=curve.warmup, name=curve.name, group=group
    )
