"""Loss curves of logs: rows joined by step, batch sizes, tokens, and a remark on everything that a log lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sgdtheory._common.arguments import positive_number
from sgdtheory._common.logged_losses import check_positive_losses
from sgdtheory.curves import LossCurve, jumps
from sgdtheory.logs.column_names import ColumnNames, candidates
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.reading import read_logs
from sgdtheory.logs.run_files import Paths
from sgdtheory.logs.training_log import KINDS, TrainingLog

EARLY = 0.01  # If the first row comes after this share of a run, a note says that no warm-up before it is assumed.
PRINTED = 1e-3  # Printed numbers of tokens have four digits, and may be off by this share.
NOT_CONSTANT = {  # These formats log no learning rates; the value says what their program does by default.
    "nanoGPT": "decays it by a cosine",
    "LitGPT": "decays it by a cosine",
    "MaxText": "decays it by a cosine",
    "OLMo": "decays it by a cosine",
    "torchtitan": "decays it linearly",
    "modded-nanogpt": "decays it linearly to 0 over its last steps",
}
Given = float | Mapping[str, float] | None  # a number for all runs, or name of the run → number
RISING = 0.02  # A warm-up is linear if its first two learning rates are on a line through 0 to within this share.


def read_training_log(
    paths: Paths,
    *,
    loss: str = "train",
    step: str | None = None,
    learning_rate: str | Given = None,
    batch_size: str | Given = None,
    tokens: str | None = None,
    run: str | None = None,
    group: str | None = None,
    sequence_length: float | None = None,
    warmup: float | None = None,
    name: str | None = None,
    formats: Sequence[AbstractLogFormat] = (),
) -> list[LossCurve]:
    """Read loss curves from logs as other programs write them; formats are recognized by content (docs/logs.md).

    >>> import json, pathlib, tempfile
    >>> import sgdtheory as st
    >>> rows = [{"step": t, "loss": 3 + 20 / t, "learning_rate": 3e-4} for t in range(10, 60, 10)]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "trainer_state.json"
    >>> _ = path.write_text(json.dumps({"log_history": rows, "train_batch_size": 8, "max_steps": 50}))
    >>> (curve,) = st.read_training_log(path, batch_size=256, sequence_length=1024)
    >>> print(curve.loss.round(2), curve.tokens[-1])
    [5.   4.   3.67 3.5  3.4 ] 13107200.0

    A learning rate that was logged at other steps than the loss is read on a straight line between its points, but
    where it jumps the old one holds up to the new one (as in LossCurve); after its last point it holds for one
    interval. Rows whose learning rate is not known are left out. A batch size holds until another is logged.

    Args:
        paths: file or folder, or several: trainer_state.json, a checkpoint or output folder, W&B's exports, TensorBoard
            folders and CSVs, text logs, JSON lines, Parquet, CSV; each may be compressed by gzip.
        loss: "train", "eval", or what the log calls it.
        step: what the log calls it, or a sum of columns such as `Step*200` or `iter+epoch*5000`; None: guessed.
        tokens: what the log calls them; None: guessed.
        learning_rate: likewise, or the number itself, to which a warm-up and a decay that the log prints are applied;
            or name of the run → number.
        batch_size: likewise, or the number itself, or name of the run → number; a batch size in tokens as
            "524288 tokens".
        run: the column that separates the runs of a file.
        group: the column that separates what is to be fitted on its own.
        sequence_length: tokens of a sequence, for tokens from batch sizes and batch sizes from tokens.
        warmup: steps of linear warm-up before the first row; None: as the log says, or 0.
        name: of the run, where all files are parts of one.
        formats: your own, which are asked before those that are known.

    Returns:
        A LossCurve a run. `remark` says what was left out, `assumed` what the log does not say.

    Raises:
        ValueError: a file of no known format, or damaged; no loss, or no learning rate: the sentence says what to give.
    """
    names, given = ColumnNames.among(
        {
            "loss": loss,
            "step": step,
            "learning_rate": learning_rate,
            "batch_size": batch_size,
            "tokens": tokens,
            "run": run,
            "group": group,
            "sequence_length": sequence_length,
            "warmup": warmup,
        }
    )
    return [loss_curve(log, **given) for log in read_logs(paths, **vars(names), name=name, formats=formats)]


def loss_curve(
    log: TrainingLog,
    *,
    loss: str = "train",
    learning_rate: Given = None,
    batch_size: Given = None,
    batch_tokens: float | None = None,
    sequence_length: float | None = None,
    warmup: float | None = None,
) -> LossCurve:
    """Return the loss curve of one log, as `read_training_log` has it.

    Args:
        log: of the run.
        loss: "train" or "eval"; any other name stands for the loss that `log` holds by it.
        learning_rate, batch_size: numbers in the place of the log's, or name of the run → number.
        batch_tokens: tokens a step, in the place of a batch size.
        sequence_length: tokens of a sequence; None: as the log says.
        warmup: steps of linear warm-up before the first row; None: as the log says, or 0.

    Raises:
        ValueError: no loss, or no learning rate: the sentence says what to give.
    """
    steps, losses = losses_of(log, loss)
    said = _Said(list(log.remarks))
    rate = of_run(learning_rate, log.name)
    size = of_run(batch_size, log.name)
    rates = _rates(log, steps) if rate is None else _given_rates(log, steps, rate, warmup, said)
    known = ~np.isnan(rates)
    if not known.all():
        first, last = steps[~known][[0, -1]]
        said.left_out.append(f"{_rows((~known).sum())} without a learning rate left out, at steps {first:g} … {last:g}")
    steps = steps[known]
    losses = losses[known]
    length = sequence_length if sequence_length is not None else log.settings.get("sequence_length")
    if batch_tokens is not None:
        if length is None:
            raise ValueError(
                f"{log.name}: a batch size in tokens, {batch_tokens:g}, needs the tokens of a sequence; give "
                "sequence_length= (--sequence-length)"
            )
        size = positive_number("batch_size", batch_tokens) / float(length)
    batches = batches_at(log, steps, size, length)
    if batches is None:
        said.assumed.append(ask_for_batch_size(log))
    if log.has("tokens") and not _tokens_seen(log)[0].size:
        said.left_out.append(
            f"{log.columns.get('tokens', 'tokens')!r} does not grow along the run: not the tokens seen"
        )
    counted = _tokens_seen(log)[0]
    if counted.size and steps.size > 1 and steps[-1] - counted[-1] > max(np.diff(steps[-2:])[0], counted[0]):
        said.left_out.append(f"tokens are logged up to step {counted[-1]:g}, and are taken to grow on at the same pace")
    seen = _tokens(log, steps, batches, length)
    ramp = _warmup(log, steps, rates[known], said) if warmup is None else warmup
    try:
        return LossCurve(
            steps,
            rates[known],
            losses,
            batches,
            tokens=seen,
            warmup=ramp,
            name=log.name,
            group=log.group,
            remark="; ".join(said.left_out),
            assumed=tuple(said.assumed),
        )
    except ValueError as error:
        raise ValueError(f"{log.name}: {error}") from None


def of_run(given: Given, name: str) -> float | None:
    """Return the number that was given for one run."""
    if isinstance(given, Mapping):
        return None if given.get(name) is None else float(given[name])
    return given


@dataclass(frozen=True)
class _Said:
    """Sentences on a curve: rows that were left out, and what was assumed."""

    left_out: list[str]
    assumed: list[str] = field(default_factory=list)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def losses_of(log: TrainingLog, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and losses of a run: "train", "eval", or any other name for the loss that the log holds by it.

    Raises:
        ValueError: it holds none, or losses that are not positive.
    """
    column = KINDS.get(loss, "loss")
    steps, losses = log.series(column)
    check_positive_losses(steps, losses, log.columns.get(column, column), log.name, "name another loss, loss= (--loss)")
    if steps.size:
        return steps, losses
    there = [*log.columns.values(), *log.unused]
    likely = candidates(column, there)
    if column == "loss" and not likely and log.has("evaluation_loss"):
        raise ValueError(f"{log.name}: it has no training loss, only evaluations; select them by loss= (--loss) eval")
    kind = "evaluation" if loss == "eval" else "training"
    which = (
        f"it may be {' or '.join(map(repr, likely))}"
        if likely
        else f"its columns are: {', '.join(map(repr, there)) or 'none'}"
    )
    raise ValueError(f"{log.name}: no {kind} loss is recognized; {which}; name it, loss= (--loss)")


def _given_rates(
    log: TrainingLog, steps: np.ndarray, peak: float, given_warmup: float | None, said: _Said
) -> np.ndarray:
    """(K,) learning rates of a run whose peak is given: with the warm-up and the decay that the log prints.

    The decay is the linear one to 0 over the last `warmdown` steps. What a program does of its own accord, and does not
    print, is remarked, not applied.
    """
    share = np.ones(steps.size)
    words = []
    warmup = float(log.settings.get("warmup") or 0.0) if given_warmup is None else 0.0
    if warmup:
        share = np.minimum(share, steps / warmup)
        words.append(f"rises over {warmup:g} steps")
    down, end = float(log.settings.get("warmdown") or 0.0), float(log.settings.get("num_steps") or 0.0)
    if down and end:
        share = np.minimum(share, np.clip((end - steps) / down, 0.0, 1.0))
        words.append(f"falls to 0 over the last {down:g} of {end:g} steps")
    if words:
        said.assumed.append(f"the learning rate {peak:g} {' and '.join(words)}, as the log says")
    if log.format in NOT_CONSTANT and not down:
        taken = f"the learning rate is taken as constant{' after that' if words else ''}"
        default = f"{log.format} {NOT_CONSTANT[log.format]} by default"
        said.assumed.append(f"{taken}, but {default}; if it did, name a table of steps and rates beside the log")
    return peak * share


def _rates(log: TrainingLog, steps: np.ndarray) -> np.ndarray:
    """(K,) learning rates at some steps, nan before the first that was logged, and long after the last."""
    at, rates = log.series("learning_rate")
    if not at.size:
        raise ValueError(
            f"{log.name}: no learning rate is logged; give its column, its number, or the file that has it too, "
            "learning_rate= (--learning-rate)"
        )
    found = np.interp(steps, at, rates, left=np.nan)
    if at.size > 1:
        place = np.clip(np.searchsorted(at, steps, side="right") - 1, 0, at.size - 2)
        found = np.where(jumps(rates)[place] & (steps >= at[0]), rates[place], found)
    interval = np.median(np.diff(at)) if at.size > 1 else np.inf  # logged once: constant
    return np.where(steps > at[-1] + interval, np.nan, found)


def batches_at(log: TrainingLog, steps: np.ndarray, given: float | None, length: float | None) -> np.ndarray | None:
    """(K,) sequences a step over all devices, of `length` tokens or as many as the log says; None: not known."""
    if given is not None:
        return np.full(steps.size, positive_number("batch_size", given))
    length = length if length is not None else log.settings.get("sequence_length")
    at, sizes = log.series("batch_size")
    if at.size:
        return sizes[np.clip(np.searchsorted(at, steps, side="right") - 1, 0, None)]
    at, sizes = log.series("batch_tokens")
    if length and at.size:
        return sizes[np.clip(np.searchsorted(at, steps, side="right") - 1, 0, None)] / float(length)
    if "batch_size" in log.settings:
        return np.full(steps.size, float(log.settings["batch_size"]))
    parts = [log.settings.get(key) for key in ("micro_batch", "accumulation", "world_size")]
    if None not in parts:
        return np.full(steps.size, float(np.prod(np.array(parts, float))))
    at, seen = _tokens_seen(log)
    if length and at.size:
        return _batches_of_tokens(at, seen, float(length))[np.clip(np.searchsorted(at, steps), 0, at.size - 1)]
    return None


def _tokens_seen(log: TrainingLog) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and tokens seen so far; none where they do not grow along the run, as those of a single step."""
    at, seen = log.series("tokens")
    grows = at.size and at[-1] > 0 and (np.diff(seen) >= 0).all() and seen[-1] > (seen[0] if at.size > 1 else 0)
    return (at, seen) if grows else (at[:0], seen[:0])


def _batches_of_tokens(at: np.ndarray, seen: np.ndarray, length: float) -> np.ndarray:
    """(K,) whole sequences a step, up to each row with tokens.

    One size where it explains all of them: of tokens that are printed with four digits differences tell little.
    """
    constant = max(np.round(seen[-1] / at[-1] / length), 1.0)
    if (np.abs(seen - constant * length * at) <= PRINTED * seen + constant * length).all():
        return np.full(at.size, constant)
    sizes = np.diff(seen) / np.diff(at) / length
    sizes = np.maximum(np.round(sizes), 1.0)
    return np.append(sizes[:1], sizes)


def ask_for_batch_size(log: TrainingLog) -> str:
    """Return what is missing for the batch size, and how to give it."""
    known = {key: log.settings[key] for key in ("micro_batch", "accumulation", "world_size") if key in log.settings}
    if known:
        words = {
            "micro_batch": "micro batch",
            "accumulation": "number of accumulated batches",
            "world_size": "number of processes",
        }
        has = " and ".join(f"{words[key]} ({value:g})" for key, value in known.items())
        lacks = " and ".join(words[key] for key in words if key not in known)
        part = f"batch size not known: the log has the {has}, but not the {lacks}"
        return f"{part}; give the total over all devices, batch_size= (--batch-size)"
    has = "it in tokens" if log.has("batch_tokens") else "tokens" if _tokens_seen(log)[0].size else ""
    if not has:
        return "batch size not known; give its column or its number, batch_size= (--batch-size)"
    return (
        f"batch size not known: the log has {has}; give sequence_length= (--sequence-length) or "
        "batch_size= (--batch-size)"
    )


def _tokens(log: TrainingLog, steps: np.ndarray, batches: np.ndarray | None, length: float | None) -> np.ndarray | None:
    """(K,) tokens seen: as logged, or those of the steps before with their batch sizes; None where not known.

    A count grows on after it was last logged, at the pace that it had then.
    """
    at, seen = _tokens_seen(log)
    if at.size:
        at, seen = (np.append(0.0, at), np.append(0.0, seen)) if at[0] > 0 else (at, seen)
        pace = (seen[-1] - seen[-2]) / (at[-1] - at[-2]) if at.size > 1 else 0.0
        return np.interp(steps, at, seen) + pace * np.maximum(steps - at[-1], 0.0)
    if batches is None or length is None or not steps.size:
        return None
    before = np.append(batches[:1], batches[:-1])
    return float(length) * np.cumsum(np.diff(steps, prepend=0.0) * before)


def _warmup(log: TrainingLog, steps: np.ndarray, rates: np.ndarray, said: _Said) -> float:
    """Return the steps of linear warm-up before the first row.

    Where the first rates lie on a line through 0 the warm-up goes on at the first row. The setting of a run counts up
    to its first row; what comes later is in the rates.
    """
    if not steps.size or steps[0] <= 1:
        return 0.0
    if "warmup" in log.settings:
        return float(min(log.settings["warmup"], steps[0]))
    if rates.size > 1 and 0 < rates[0] < rates[1]:
        slope = rates[1] / rates[0] * steps[0] / steps[1]
        if abs(slope - 1) <= RISING:
            return float(steps[0])
    if steps[0] > EARLY * steps[-1]:
        first = f"no warm-up assumed before the first row, at step {steps[0]:g}"
        said.assumed.append(f"{first}; give its steps if there was one, warmup= (--warmup)")
    return 0.0
