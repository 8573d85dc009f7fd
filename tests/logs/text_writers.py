"""Text logs as their programs print them: format strings re-typed from the printing code that the formats name.

Every writer takes a `Run` and returns the log's text, and `printed`: what a number becomes by being printed.
"""

import dataclasses
import json
from typing import NamedTuple

import numpy as np

from tests.logs.console_writers import composer, fairseq, litgpt, llm_c, timm


class Run(NamedTuple):
    """(K,) steps, losses and rates, evaluations at some of the steps, and the settings."""

    steps: np.ndarray
    loss: np.ndarray
    rate: np.ndarray
    evaluated: dict
    batch: int = 256
    length: int = 2048
    total: int = 10000


def random_run(seed, rows=40):
    """A decaying loss with noise, a warm-up and a decay, at steps some of which are far apart."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(1, 40, rows))
    loss = 1.7 + 9 * (1 + steps / 10) ** -0.6 * np.exp(0.05 * rng.normal(size=rows))
    rate = 3e-4 * np.minimum(steps / 100, 1) * np.linspace(1, 0.1, rows)
    evaluated = {int(step): float(1.7 + 9 * (1 + step / 10) ** -0.6) for step in steps[::7]}
    return Run(steps, loss, rate, evaluated, batch=int(2 ** rng.integers(3, 12)))


def megatron(run, *, clock=True, unit="ms"):
    lines = ["------------------------ arguments ------------------------"]
    arguments = {
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "global_batch_size": run.batch,
        "lr_warmup_iters": 100,
        "seq_length": run.length,
        "train_iters": run.total,
        "weight_decay": 0.1,
    }
    lines += ["  {} {} {}".format(arg, "." * (48 - len(arg)), value) for arg, value in arguments.items()]
    lines += ["-------------------- end of arguments ---------------------"]
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        log_string = " [2026-08-22 10:00:00.123456]" if clock else ""
        log_string += f" iteration {step:8d}/{run.total:8d} |"
        log_string += f" consumed samples: {step * run.batch:12d} |"
        log_string += f" elapsed time per iteration ({unit}): {8493.8:.1f} |"
        log_string += f" learning rate: {rate:.6E} |"
        log_string += f" global batch size: {run.batch:5d} |"
        log_string += " {}: {:.6E} |".format("lm loss", loss)
        log_string += f" loss scale: {1.0:.1f} |"
        log_string += f" grad norm: {1.234:.3f} |"
        log_string += f" number of skipped iterations: {0:3d} |"
        log_string += f" number of nan iterations: {0:3d} |"
        lines.append(log_string)
        if step in run.evaluated:
            value = run.evaluated[step]
            string = f" validation loss at iteration {step} | "
            string += "{} value: {:.6E} | ".format("lm loss", value)
            string += "{} PPL: {:.6E} | ".format("lm loss", np.exp(value))
            lines += ["-" * (len(string) + 1), string, "-" * (len(string) + 1)]
    return lines


def nemo(run):
    lines = []
    seen = {}
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        metrics = {
            "lr": float(rate),
            "global_batch_size": float(run.batch),
            "global_step": float(step),
            "reduced_train_loss": float(loss),
            "consumed_samples": float(step * run.batch),
        }
        if step in run.evaluated:
            seen = {"val_loss": run.evaluated[step]}
        log_string = f"Training epoch 0, iteration {step}/{run.total - 1}"
        for metric, val in (metrics | seen).items():
            if isinstance(val, float) and val.is_integer():
                log_string += f" | {metric}: {int(val)}"
            else:
                log_string += f" | {metric}: {val:.4}"
        lines.append(log_string)
    return lines


def nanogpt(run):
    lines = ["Overriding config with config/train.py:", "weight_decay = 1e-1", f"block_size = {run.length} # long", ""]
    lines += ["Overriding: max_iters = 10000", f"tokens per iteration will be: {run.batch * run.length:,}"]
    for step, loss in zip(run.steps, run.loss, strict=True):
        if step in run.evaluated:
            lines.append(f"step {step}: train loss {loss:.4f}, val loss {run.evaluated[step]:.4f}")
        lines.append(f"iter {step}: loss {loss:.4f}, time {90:.2f}ms, mfu {40:.2f}%")
    return lines


def modded_nanogpt(run):
    lines = ["import os", "import sys", "with open(sys.argv[0]) as f:", "    code = f.read() # read the code", ""]
    lines += [f"    batch_size : int = 8*{run.batch // 8} # batch size, in sequences, across all devices"]
    lines += [f"    sequence_length : int = {run.length} # sequence length, in tokens", "=" * 100]
    for step, loss in zip(run.steps, run.loss, strict=True):
        if step in run.evaluated:
            lines.append(
                f"step:{step}/{run.total} val_loss:{run.evaluated[step]:.4f} train_time:{9:.0f}ms step_avg:nanms"
            )
        lines.append(f"step:{step}/{run.total} train_loss:{loss:.4f} train_time:{9:.0f}ms step_avg:{9.5:.2f}ms")
    return lines


COLOURS = {
    "red": "\033[31m",
    "green": "\033[32m",
    "orange": "\033[38;2;180;60;0m",
    "reset": "\033[39m",
    "blue": "\033[34m",
}


def torchtitan(run, *, colours=True, prefix="[titan] 2026-08-22 10:00:00,123 - root - INFO - "):
    red, green, orange, reset, blue = (COLOURS.values()) if colours else [""] * 5
    lines = [
        f"{prefix}Trainer is initialized with local batch size 8, global batch size {run.batch}, "
        f"gradient accumulation steps 1, sequence length {run.length}, total steps {run.total} (warmup 200)"
    ]
    for step, loss in zip(run.steps, run.loss, strict=True):
        lines.append(
            f"{prefix}{red}step: {step:2}  {green}loss: {loss:8.5f}  {orange}grad_norm: {1.5:7.4f}  "
            f"memory: {40.123:5.2f}GiB({50.0:.2f}%)  {blue}tps: {12345:,}  tflops: {321.5:,.2f}  mfu: 40.00%{reset}"
        )
        if step in run.evaluated:
            lines.append(
                f"{prefix}{red}validate step: {step:2}  {green}loss: {run.evaluated[step]:7.4f}  "
                f"memory: {40.123:5.2f}GiB({50.0:.2f}%)  {blue}tps: {12345:,}{reset}"
            )
    return lines


def olmo_float(value):
    if value < 0.0001:
        return str(value)
    if value > 1000:
        return f"{int(value):,d}"
    for least, digits in ((100, 1), (10, 2), (1, 3)):
        if value > least:
            return f"{value:.{digits}f}"
    return f"{value:.4f}"


def olmo(run):
    prefix = "2026-08-22 10:00:00.123\tnode1:0\tolmo.train:979\tINFO\t"
    lines = []
    for step, loss in zip(run.steps, run.loss, strict=True):
        metrics = {
            "train/CrossEntropyLoss": loss,
            "train/Perplexity": np.exp(loss),
            "throughput/total_tokens": step * run.batch * run.length,
        }
        lines.append(f"{prefix}[step={step}/{run.total},epoch=0]")
        lines += [f"    {name}={olmo_float(value)}" for name, value in metrics.items()]
        if step in run.evaluated:
            lines.append(f"{prefix}all-small-ppl-validation")
            lines += [f"    eval/c4_en-validation/CrossEntropyLoss={olmo_float(run.evaluated[step])}"]
            lines += [f"    eval/pile-validation/CrossEntropyLoss={olmo_float(run.evaluated[step] + 1)}"]
    return lines


def olmo_core_float(value):
    if value == 0:
        return "0.0"
    if value >= 1e9:
        suffix, factor = next(each for each in (("T", 1e12), ("B", 1e9)) if value >= each[1])
        scaled = value / factor
        digits = next((digits for least, digits in ((100, 1), (10, 2), (1, 3)) if scaled > least), 4)
        return f"{scaled:,.{digits}f}{suffix}"
    if value < 0.0001:
        return f"{value:.2E}"
    return olmo_float(value)


def olmo_core(run):
    prefix = "2026-08-22 10:00:00.123\tnode1:0\tolmo_core.train.callbacks.console_logger:71\tINFO\t"
    lines = []
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        metrics = {
            "train/CE loss": loss,
            "train/PPL": np.exp(loss),
            "optim/total grad norm": 1.5,
            "optim/LR (group 0)": rate,
            "optim/LR (group 1)": rate,
            "throughput/total tokens": step * run.batch * run.length,
            "throughput/device/TPS": 12345.6,
        }
        lines.append(f"{prefix}[step={step}/{run.total},epoch=1,eta=1 day02:03:04]")
        lines += [f"    {name}={olmo_core_float(value)}" for name, value in metrics.items()]
        if step in run.evaluated:
            lines += [f"{prefix}Finished lm evals in {3.14:.1f} seconds. Metrics:"]
            lines += [f"    c4_en-validation/CE loss={olmo_core_float(run.evaluated[step])}"]
    return lines


def maxtext(run):
    prefix = "I0822 10:00:00.123456 140 max_logging.py:46] "
    lines = [f"{prefix}Config param global_batch_size_to_train_on: {run.batch}"]
    lines += [f"{prefix}Config param max_target_length: {run.length}", f"{prefix}Config param steps: {run.total}"]
    for step, loss in zip(run.steps, run.loss, strict=True):
        log_parts = [f"completed step: {step}", f"seconds: {0.912:.3f}", f"TFLOP/s/device: {321.5:.3f}"]
        log_parts += [
            f"Tokens/s/device: {12345.6:.3f}",
            f"total_weights: {run.batch * run.length}",
            f"loss: {loss:.3f}",
        ]
        log_parts += [f"lm_loss: {loss:.3f}", f"perplexity: {np.exp(loss):.3f}"]
        lines.append(prefix + ", ".join(log_parts))
        if step in run.evaluated:
            log_parts = [f"Completed eval after train step {step}", f"loss={run.evaluated[step]:.3f}"]
            lines.append(prefix + ", ".join([*log_parts, f"total_weights={1000}", f"avg_z_loss={0:.3f}"]))
    return lines


def levanter(run):
    prefix = "2026-08-22T10:00:00 - 0 - levanter.json_logger - json_logger.py:70 - INFO :: "
    hparams = {
        "trainer": {"train_batch_size": run.batch, "num_train_steps": run.total},
        "model": {"seq_len": run.length},
    }
    records = [{"tracker": "json_logger", "event": "hparams", "hparams": hparams}]
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        known = {"tracker": "json_logger", "event": "log", "step": int(step)}
        records.append({**known, "metrics": {"optim/learning_rate": float(rate)}})
        records.append({**known, "metrics": {"train/loss": float(loss), "global_step": int(step)}})
        total = int(step + 1) * run.batch * run.length
        records.append({**known, "metrics": {"throughput/total_tokens": total}})
        if step in run.evaluated:
            records.append({**known, "metrics": {"eval/loss": run.evaluated[step]}})
    return [prefix + json.dumps(record) for record in records]


def bar(run):
    """Levanter's progress bar: steps of three digits."""
    lines = []
    for step, loss in zip(run.steps, run.loss, strict=True):
        scaled = f"{step:.0f}it" if step >= 100 else f"{step:.1f}it" if step >= 10 else f"{step:.2f}it"
        lines.append(
            f"Progress on:train {scaled}/10.0kit rate:2.5it/s remaining:1:00 elapsed:02 postfix:loss={loss:.3g}"
        )
    return [
        f"2026-08-22T10:00:00 - 0 - tqdm_loggable.tqdm_logging - tqdm_logging.py:155 - INFO :: {each}" for each in lines
    ]


def hugging_face_console(run, *, bar=True, quotes=False):
    """Dictionaries of the Trainer; tqdm's write clears the bar, and draws it anew below. Evaluations have their own."""
    steps_of_epoch = run.total / 4

    def drawn(step, total):
        return (
            f"\r{100 * step // total:3.0f}%|{'█' * int(10 * step / total):10}| {step}/{total} [00:10<03:20,  4.75it/s]"
        )

    def dictionary(step, **numbers):
        numbers |= {"epoch": round(float(step) / steps_of_epoch, 4)}
        return str({name: f"{value}" if quotes else value for name, value in numbers.items()})

    lines = ["***** Running training *****", "  Num examples = 1,024", "  Num Epochs = 4"]
    lines += [f"  Total train batch size (w. parallel, distributed & accumulation) = {run.batch:,}"]
    lines += [f"  Total optimization steps = {run.total:,}", drawn(0, run.total) if bar else ""]
    for step, loss, rate in zip(run.steps.tolist(), run.loss, run.rate, strict=True):
        clear = f"\r{' ' * 60}\r" if bar else ""
        row = dictionary(step, loss=float(f"{loss:.4f}"), grad_norm=0.5, learning_rate=float(rate))
        lines += [clear + row, drawn(step, run.total) if bar else ""]
        if step in run.evaluated:
            lines += [drawn(7, 7)] * bar
            row = dictionary(step, eval_loss=run.evaluated[step], eval_runtime=1.0)
            lines += [clear + row, *[drawn(7, 7), drawn(step, run.total)] * bar]
    return lines


def key_values(run):
    """Somebody's own loop."""
    lines = ["Starting, with 12 layers", "epoch 0 begins"]
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        lines.append(f"[10:00:00] step: {step}, loss={loss:.5f}, learning rate: {rate:.6e}, tokens: {step * run.batch}")
        if step in run.evaluated:
            lines.append(f"[10:00:00] step {step} | val loss {run.evaluated[step]:.5f}")
    return lines


@dataclasses.dataclass(frozen=True)
class Printing:
    """Properties of a printed log: lines of a run, the format's name, digits of losses and evaluations, columns."""

    lines: object
    format: str
    loss: str = ".6E"
    evaluation: str = ""
    rate: str = ""
    has: tuple = ("batch_size", "sequence_length")

    def text(self, run):
        return "\n".join(self.lines(run)) + "\n"


PRINTINGS = {
    "megatron": Printing(megatron, "Megatron-LM", rate=".6E"),
    "megatron 2022": Printing(lambda run: megatron(run, clock=False), "Megatron-LM", rate=".6E"),
    "megatron in seconds": Printing(lambda run: megatron(run, unit="s"), "Megatron-LM", rate=".6E"),
    "nemo": Printing(nemo, "NeMo", loss=".4", rate=".4", has=("batch_size",)),
    "nanogpt": Printing(nanogpt, "nanoGPT", loss=".4f"),
    "modded-nanogpt": Printing(modded_nanogpt, "modded-nanogpt", loss=".4f"),
    "torchtitan": Printing(torchtitan, "torchtitan", loss=".5f", evaluation=".4f"),
    "torchtitan, no colours": Printing(
        lambda run: torchtitan(run, colours=False, prefix="2024-07-01 10:00:00,123 - root - INFO - "),
        "torchtitan",
        loss=".5f",
        evaluation=".4f",
    ),
    "olmo": Printing(olmo, "OLMo", loss="olmo", has=()),
    "olmo-core": Printing(olmo_core, "OLMo", loss="olmo", rate="olmo_core", has=()),
    "maxtext": Printing(maxtext, "MaxText", loss=".3f"),
    "levanter": Printing(levanter, "Levanter", loss=".17g", rate=".17g"),
    "levanter's bar": Printing(bar, "Levanter", loss=".3g", evaluation="none", has=()),
    "hugging face": Printing(
        hugging_face_console, "Hugging Face console", loss=".4f", evaluation=".17g", rate=".17g", has=("batch_size",)
    ),
    "hugging face, no bar": Printing(
        lambda run: hugging_face_console(run, bar=False, quotes=True),
        "Hugging Face console",
        loss=".4f",
        evaluation=".17g",
        rate=".17g",
        has=("batch_size",),
    ),
    "llm.c": Printing(llm_c, "llm.c", loss=".4f", rate=".6f", has=()),
    "fairseq": Printing(fairseq, "fairseq", loss="bits", rate="g", has=("batch_size",)),
    "fairseq, simple": Printing(
        lambda run: fairseq(run, log_format="simple"), "fairseq", loss="bits", rate="g", has=("batch_size",)
    ),
    "composer": Printing(composer, "Composer", loss=".4f"),
    "composer, epochs": Printing(lambda run: composer(run, epochs=True), "Composer", loss=".4f"),
    "litgpt": Printing(litgpt, "LitGPT", loss=".3f", evaluation=".4f"),
    "timm": Printing(timm, "timm", loss="#.4g", evaluation=".4f", rate=".3e", has=()),
    "key values": Printing(key_values, "lines of keys and values", loss=".5f", rate=".6e", has=()),
}


def printed(values, how):
    """Numbers as they are after printing."""
    words = {"olmo": olmo_float, "olmo_core": olmo_core_float}
    write = words.get(how, lambda value: f"{value:{how}}")
    if how == "bits":
        return np.array([float(f"{value / np.log(2):.3f}") * np.log(2) for value in values])
    return np.array([float(write(float(value))) for value in values])
