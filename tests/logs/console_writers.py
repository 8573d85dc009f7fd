"""Consoles of further programs: format strings re-typed from the printing code that the formats name."""

import json

import numpy as np


def llm_c(run):
    """`main.log`; the first evaluation is logged twice, as when a run is resumed."""
    lines = []
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        if step in run.evaluated:
            lines.append(f"s:{step} tel:{run.evaluated[step]:.4f}")
        lines.append(f"s:{step} trl:{loss:.4f} lr:{rate:.6f} norm:{1.25:.2f}")
    return lines


def fairseq(run, *, log_format="json"):
    """Losses in bits; the mean over an epoch, `| train |`, is no row."""
    lines = ["2026-08-22 10:00:00 | INFO | fairseq_cli.train | training on 8 devices (GPUs/TPUs)"]
    clock = "2026-08-22 10:00:00 | INFO | "

    def words(between, joined, **stats):
        return between.join(f"{key}{joined}{value}" for key, value in stats.items())

    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        bits = f"{loss / np.log(2):.3f}"
        stats = {"loss": bits, "nll_loss": "8.846", "ppl": "460.11", "wps": "14185.4", "bsz": f"{run.batch:g}"}
        stats |= {"num_updates": f"{step:g}", "lr": f"{rate:g}", "gnorm": "1.7", "train_wall": "93", "wall": "0"}
        if log_format == "json":
            lines.append(f"{clock}train_inner | " + json.dumps({"epoch": 1, "update": 0.012, **stats}))
        else:
            lines.append(f"{clock}train_inner | epoch 001:  {step % 487 + 1:5d} / 487 " + words(", ", "=", **stats))
        if step in run.evaluated:
            stats = {"loss": f"{run.evaluated[step] / np.log(2):.3f}", "nll_loss": "7.1", "ppl": "4", "bsz": "455.2"}
            stats |= {"num_updates": f"{step:g}", "best_loss": "1.001"}
            if log_format == "json":
                named = {f"valid_{key}": value for key, value in stats.items()}
                lines.append(f"{clock}valid | " + json.dumps({"epoch": 1, **named}))
                lines.append(f"{clock}valid1 | " + json.dumps({"epoch": 1, **{f"valid1_{k}": "1" for k in stats}}))
            else:
                lines.append(f"{clock}valid | epoch 001 | valid on 'valid' subset | " + words(" | ", " ", **stats))
            lines.append(f"{clock}train | epoch 001 | loss 3.663 | ppl 12.67 | num_updates {step:g} | lr 1")
    return lines


def composer(run, *, epochs=False):
    """Blocks of metrics; without the configuration batch sizes follow from samples."""
    lines = ["******************************", "Config:", f"max_seq_len: {run.length}", ""]
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        lines.append(
            f"[epoch={(step - 1) // 50 + 1}][batch={(step - 1) % 50 + 1}/50]:"
            if epochs
            else f"[batch={step}/{run.total}]:"
        )
        metrics = {"time/batch": step - 1, "time/sample": (step - 1) * run.batch, "loss/train/total": float(loss)}
        metrics |= {"metrics/train/LanguageCrossEntropy": 1.0, "lr-DecoupledAdamW/group0": float(rate)}
        for name, value in metrics.items():
            lines.append(f"\t Train {name}: {value:.4f}" if isinstance(value, float) else f"\t Train {name}: {value}")
        if step in run.evaluated:
            lines += ["[Eval batch=1/10] Eval on eval data", "[Eval batch=10/10] Eval on eval data:"]
            lines += [f"\t Eval metrics/eval/LanguageCrossEntropy: {run.evaluated[step]:.4f}"]
            lines += ["\t Eval metrics/other/LanguageCrossEntropy: 9.0000"]
    return lines


def litgpt(run):
    lines = [f"{{'train': TrainArgs(save_interval=1000, log_interval=1, global_batch_size={run.batch},"]
    lines += [f" lr_warmup_steps=2000, max_seq_length={run.length}, tie_embeddings=False)}}", "Total parameters: 1,234"]
    for step, loss in zip(run.steps, run.loss, strict=True):
        lines.append(
            f"Epoch 1 | iter {4 * step} step {step} | loss train: {loss:.3f}, val: n/a | iter time: 123.40 ms "
            "(step) remaining time: 1 day, 3:04:05"
        )
        if step in run.evaluated:
            lines.append(f"iter {4 * step}: val loss {run.evaluated[step]:.4f}, val time: {99.9:.2f} ms")
    return lines


def timm(run):
    """Epochs of 50 updates; an evaluation's last line has the mean."""
    lines = []
    for step, loss, rate in zip(run.steps, run.loss, run.rate, strict=True):
        lines.append(
            f"Train: {step // 50} [{step % 50:>4d}/50 ({100.0 * (step % 50) / 49:>3.0f}%)]  "
            f"Loss: {loss:#.4g} ({9.9:#.3g})  Time: 0.312s,  410.26/s  (0.321s,  400.01/s)  LR: {rate:.3e}  "
            "Data: 0.010 (0.012)"
        )
        if step in run.evaluated:
            for batch in (0, 48):
                mean = f"{run.evaluated[step]:>6.4f}" if batch else "9.9000"
                lines.append(
                    f"Test: [{batch:>4d}/48]  Time: 0.123 (0.123)  Loss:  {5.5:>7.4f} ({mean})  Acc@1: 1.0 (1.0)"
                )
    return lines
