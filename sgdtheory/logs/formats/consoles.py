"""Consoles of single programs, each a table of patterns after the printing code that the comment above it names."""

import re
from math import log

from sgdtheory.logs.formats.lines import NUMBER, Console

NAMES = {"evaluation_loss": "val loss", "learning_rate": "lr"}
HYPERPARAMETERS = {name: name for name in ("weight_decay", "beta1", "beta2", "learning_rate")}


def _patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    """Compile patterns in which `<name>` stands for a number, the group of that name."""
    names = (re.sub(r"(?<!P)<(\w+)>", lambda found: f"(?P<{found[1]}>{NUMBER})", text) for text in texts)
    return tuple(map(re.compile, names))


def _anywhere(**words: str) -> str:
    """Return a pattern for numbers that follow their words in any order; words that are missing do not matter."""
    return "".join(f"(?=(?:.*?{word}<{name}>)?)" for name, word in words.items())


# `Training epoch 0, iteration 99/999 | lr: 0.0003 | global_batch_size: 256 | reduced_train_loss: 3.142 | …`:
# NVIDIA/NeMo 8cfedd72 (2025-09-20) `nemo/lightning/pytorch/callbacks/progress_printer.py`. Numbers have four digits.
# `val_loss` stands in every line after a validation.
_NEMO = r"/<last_step> (?=\|)" + _anywhere(
    loss=r"\| reduced_train_loss: ",
    learning_rate=r"\| lr: ",
    batch_size=r"\| global_batch_size: ",
    evaluation_loss=r"\| val_loss: ",
)
NEMO = Console(
    name="NeMo",
    programs=("NeMo",),
    mark=re.compile(r"\bTraining epoch \d+, iteration \d+/\d+ \|"),
    patterns=_patterns(
        r"\bTraining epoch \d+, iteration (?=.*?\| global_step: <step>)\d+" + _NEMO,
        r"\bTraining epoch \d+, iteration <step>" + _NEMO,
    ),
    called={
        "loss": "reduced_train_loss",
        "evaluation_loss": "val_loss",
        "learning_rate": "lr",
        "batch_size": "global_batch_size",
    },
    changes=frozenset({"evaluation_loss"}),
)

# `iter 100: loss 3.1234, time 90.00ms, mfu 40.00%`, `step 1000: train loss 3.1234, val loss 3.2345`:
# karpathy/nanoGPT 3adf61e1 (2025-11-12) `train.py`, `configurator.py`. `iter` is the loss of one micro batch before
# that step. B is the tokens of an iteration over `block_size`, which is train.py's own where the log shows no other.
NANOGPT = Console(
    name="nanoGPT",
    programs=("nanoGPT",),
    mark=re.compile(r"\biter \d+: loss \S+, time|\bstep \d+: train loss \S+, val loss "),
    patterns=_patterns(
        r"\biter <step>: loss <loss>, time",
        r"\bstep <step>: train loss \S+, val loss <evaluation_loss>",
        r"tokens per iteration will be: <tokens_per_step>",
        r"^(?:Overriding: )?(?P<key>\w+) = (?P<value>[^#]+)",
    ),
    settings={
        "block_size": "sequence_length",
        "batch_size": "micro_batch",
        "max_iters": "num_steps",
        "warmup_iters": "warmup",
        **HYPERPARAMETERS,
    },
    called=NAMES,
    defaults={"sequence_length": 1024.0},
)

# `step:100/5100 train_loss:4.1234 train_time:12345ms step_avg:130.00ms`, `step:125/5100 val_loss:4.2345 …`:
# KellerJordan/modded-nanogpt f411b3d3 (2026-08-01) `train_gpt.py`, and the program in the logs of
# `records/track_1_short/2024-10-29_Optimizers`, which begin with it: hyperparameters are read there while the batch
# size is in sequences. Records of 2025 and later print validation losses alone.
MODDED_NANOGPT = Console(
    name="modded-nanogpt",
    programs=("modded-nanogpt",),
    mark=re.compile(
        r"^step:\d+/\d+ (?:(?:train|val)_loss:|train_time:)"
        r"|\Aimport os\nimport sys\n(?:\n?#.*\n)*with open\(sys\.argv\[0\]",  # the program, printed first
        re.MULTILINE,
    ),
    patterns=_patterns(
        r"^step:<step>/<num_steps> train_loss:<loss> ",
        r"^step:<step>/<num_steps> val_loss:<evaluation_loss> ",
        r"^\s+(?P<key>\w+) *: *(?:int|float) *= *+(?P<value>[\d.e*+-][\d.e*+ -]*)(?:#.*)?$",
    ),
    settings={
        "batch_size": "batch_size",
        "sequence_length": "sequence_length",
        "num_iterations": "num_steps",
        "warmup_iters": "warmup",
        "warmdown_iters": "warmdown",
        **HYPERPARAMETERS,
    },
    called={"loss": "train_loss", "evaluation_loss": "val_loss"},
)

# `[titan] … step: 10  loss:  8.12345  grad_norm:  1.2345  memory: … tps: … tflops: … mfu: …`, in colours or not:
# pytorch/torchtitan b5bcd76c (2026-08-21) `torchtitan/components/metrics.py`, `trainer.py`, `tools/logging.py`;
# 53f66422 (2025-07-15), since when validations are printed; 1ec2ece5 (2024) `train.py`, with wps for tps and no norm.
# All ranks print the loss of all of them. The peak of the learning rate is printed with the configuration, where that
# is printed.
TORCHTITAN = Console(
    name="torchtitan",
    programs=("torchtitan",),
    mark=re.compile(
        rf"(?:validate )?step: +\d+  loss: +{NUMBER}  (?:grad_norm: +\S+  )?memory:|^\[titan\] \d{{4}}-", re.MULTILINE
    ),
    patterns=_patterns(
        r"validate step: +<step>  loss: +<evaluation_loss>  memory:",
        r"step: +<step>  loss: +<loss>  (?:grad_norm: +\S+  )?memory:",
        r"Trainer is initialized with (?=(?:.*?(?<!\d)(?P<tokens_per_step>\d+) tokens per train step)?)"
        + _anywhere(
            batch_size="global batch size ",
            micro_batch="local batch size ",
            accumulation="gradient accumulation steps ",
            sequence_length="(?:sequence|maximum context) length ",
            num_steps="total steps ",
            warmup=r"\(warmup ",
        ),
        r'^\s+"(?P<key>lr|beta1|beta2|weight_decay)": (?P<value>[\d.eE+-]+),?$',
    ),
    settings=HYPERPARAMETERS | {"lr": "learning_rate"},
    called={"evaluation_loss": "validate loss"},
)

# Blocks, `[step=100/1000,epoch=0]` and below it `    train/CrossEntropyLoss=3.123`, a metric a line: allenai/OLMo
# 59a53e3f (2025-09-04) `olmo/train.py`, `log_metrics_to_console`, `olmo/eval/evaluator.py`; allenai/OLMo-core
# fa6c5014 (2026-06-22) `src/olmo_core/train/callbacks/console_logger.py`, `evaluator_callback.py`, `speed_monitor.py`
# and `utils.py`, `format_float`. Losses have four digits there, and tokens from 10⁹ on. OLMo prints no learning rate,
# OLMo-core those of its groups of parameters, of which the first counts.
OLMO = Console(
    name="OLMo",
    programs=("OLMo", "OLMo-core"),
    mark=re.compile(r"\[step=\d+/(?:[\d,]+|\?\?\?),epoch=\d+"),
    patterns=_patterns(
        r"\[step=<step>/(?:<num_steps>|\?\?\?),epoch=\d+",
        r"^    (?P<key>(?:train|throughput|optim)/[^=]*)=(?P<value>\S+)$",
        r"^    (?:eval/)?(?P<source>[^\s=][^=]*)/(?:CrossEntropyLoss|CE loss)=<evaluation_loss>$",
    ),
    metrics={
        "train/CrossEntropyLoss": "loss",
        "train/CE loss": "loss",
        "throughput/total_tokens": "tokens",
        "throughput/total tokens": "tokens",
        "optim/learning_rate_group0": "learning_rate",
        "optim/LR (group 0)": "learning_rate",
    },
)

# `completed step: 100, seconds: 0.912, TFLOP/s/device: …, Tokens/s/device: …, total_weights: …, loss: 3.123, …`:
# AI-Hypercomputer/maxtext e591f30c (2026-08-22) `src/maxtext/common/metric_logger.py` and
# `src/maxtext/configs/pyconfig.py`, which prints every parameter. Older lines of evaluations, `eval metrics after
# step:`, are read too; their code was not seen. Losses have three digits after the point. The batch size of a ramp is
# not printed.
MAXTEXT = Console(
    name="MaxText",
    programs=("MaxText",),
    mark=re.compile(r"\bcompleted step: \d+, seconds: |\bConfig param \w+: "),
    patterns=_patterns(
        r"\bcompleted (?:profiler activation/deactivation )?step: <step>, (?:(?!\bcompleted ).)*?\bloss: <loss>",
        r"(?:Completed eval after train step|eval metrics after step:) <step>, (?:avg_)?loss=<evaluation_loss>",
        r"\bConfig param (?P<key>\w+): (?P<value>.+)",
    ),
    settings={
        "global_batch_size_to_train_on": "batch_size",
        "max_target_length": "sequence_length",
        "gradient_accumulation_steps": "accumulation",
        "steps": "num_steps",
        "warmup_steps_fraction": "warmup_fraction",
        "learning_rate_schedule_steps": "decay_steps",
        "learning_rate": "learning_rate",
        "opt_type": "optimizer",
        "adam_b1": "beta1",
        "adam_b2": "beta2",
        "adam_weight_decay": "weight_decay",
    },
    called={"evaluation_loss": "eval loss"},
)

# `s:100 trl:4.1234 lr:0.000300 norm:1.23` and `s:250 tel:4.0123` of main.log: karpathy/llm.c `llmc/logger.h`; the first
# versions (`train_gpt2_fp32.cu`) have no learning rate.
LLM_C = Console(
    name="llm.c",
    programs=("llm.c: main.log",),
    mark=re.compile(r"(?<!\w)s:\d+ t[re]l:"),
    patterns=_patterns(r"^s:<step> trl:<loss>(?: lr:<learning_rate>)?", r"^s:<step> tel:<evaluation_loss>"),
    called={"loss": "trl", "evaluation_loss": "tel", "learning_rate": "lr"},
)

# `… | INFO | train_inner | {"epoch": 1, "update": 0.01, "loss": "9.123", …, "num_updates": "100", "lr": "1e-05", …}`
# with --log-format json, `… | train_inner | epoch 001:    100 / 487 loss=9.123, …, num_updates=100, lr=1e-05, …` with
# simple; validations as `| valid | {"epoch": 1, "valid_loss": "8.1", …}` or `| valid | epoch 001 | valid on 'valid'
# subset | loss 8.1 | …`: facebookresearch/fairseq 0400ebb5 `fairseq/logging/progress_bar.py`. Losses are over ln 2
# there (criterions).
FAIRSEQ = Console(
    name="fairseq",
    programs=("fairseq: --log-format json or simple",),
    mark=re.compile(r"\| train_inner \| (?:\{\"epoch\"|epoch \d+:)|\| valid(?:_\w+)? \| (?:\{\"epoch\"|epoch \d+ \|)"),
    patterns=_patterns(
        r'\| train_inner \| \{(?=.*?"num_updates": "<step>")'
        + _anywhere(loss='"loss": "', learning_rate='"lr": "', batch_size='"bsz": "'),
        r"\| train_inner \| epoch \d+:(?=.*?\bnum_updates=<step>)"
        + _anywhere(loss=r"\bloss=", learning_rate=r"\blr=", batch_size=r"\bbsz="),
        r'\| (?P<source>valid\w*) \| \{(?=.*?"valid\w*_num_updates": "<step>").*?"valid\w*?_loss": "<evaluation_loss>"',
        r"\| (?P<source>valid\w*) \| epoch \d+ \|(?=.*?\bnum_updates <step>).*?\| loss <evaluation_loss>",
    ),
    called={"evaluation_loss": "valid_loss", "learning_rate": "lr", "batch_size": "bsz"},
    nats=log(2),
    notes=("fairseq prints losses in bits: they are read as nats, × ln 2",),
)

# Blocks, `[batch=100/4800]:` or `[epoch=1][batch=5/10]:` and below it `\t Train loss/train/total: 5.1234`, a metric a
# line; evaluations as `\t Eval metrics/eval/LanguageCrossEntropy: 5.0123`: mosaicml/composer 02c872e4
# `composer/loggers/console_logger.py`, `logger.py` (`format_log_data_value`: four digits after the point). The
# configuration that llm-foundry prints before has the batch size and the length of a sequence.
COMPOSER = Console(
    name="Composer",
    programs=("Composer, LLM Foundry",),
    mark=re.compile(r"\bTrain (?:loss/train/total|time/batch): "),
    patterns=_patterns(
        r"\[epoch=<epoch>\]\[batch=<in_epoch>/<length>\]",
        r"\[batch=<step>/<num_steps>\]",
        r"\bTrain time/batch: <completed_steps>$",
        r"\bTrain time/sample: <samples_seen>$",
        r"\bTrain loss/train/total: <loss>$",
        r"\bEval metrics/(?P<source>\S+?)/(?:Language)?CrossEntropy: <evaluation_loss>$",
        r"^\s*(?P<key>global_train_batch_size|max_seq_len): (?P<value>\d+)$",
    ),
    settings={"global_train_batch_size": "batch_size", "max_seq_len": "sequence_length"},
    called={"loss": "loss/train/total"},
    first_epoch=1,
    notes=("Composer prints learning rates with four digits after the point, too few: they are not read",),
)

# `Epoch 1 | iter 512 step 4 | loss train: 10.123, val: n/a | iter time: …`, `iter 8192: val loss 4.1234, val time: …`:
# Lightning-AI/litgpt 0363060b `litgpt/pretrain.py`, which prints its arguments first. `iter` counts micro batches.
LITGPT = Console(
    name="LitGPT",
    programs=("LitGPT",),
    mark=re.compile(r"\biter \d+ step \d+ \| loss train: "),
    patterns=_patterns(
        r"\biter \d+ step <step> \| loss train: <loss>,",
        r"\biter \d+: val loss <evaluation_loss>, val time",
        r"\b(?P<key>global_batch_size|max_seq_length|lr_warmup_steps|max_steps)=(?P<value>\d+)",
    ),
    settings={
        "global_batch_size": "batch_size",
        "max_seq_length": "sequence_length",
        "lr_warmup_steps": "warmup",
        "max_steps": "num_steps",
    },
    called={"loss": "loss train", "evaluation_loss": "val loss"},
)

# `Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.95)  Time: … LR: 1.000e-05  Data: …`, `Test: [  48/48]  … Loss: 5.12
# (5.34) …`: huggingface/pytorch-image-models `train.py`, of 2020 (`{loss.val:>9.6f}`) and of 2024
# (`{losses_m.val:#.3g}`). The loss is the last batch's, of an evaluation the mean in brackets, printed with its last
# batch.
TIMM = Console(
    name="timm",
    programs=("timm",),
    mark=re.compile(r"\bTrain: \d+ \[ *\d+/\d+ \( *\d+%\)\] "),
    patterns=_patterns(
        r"\bTrain: <epoch> \[ *<in_epoch>/<length> \( *\d+%\)\] .*?\bLoss: +<loss> .*?\bLR: +<learning_rate>",
        r"\bTest: \[ *(\d+)/\1\] .*?\bLoss: +\S+ \( *<evaluation_loss>\)",
    ),
    called={"loss": "Loss", "evaluation_loss": "Test: Loss", "learning_rate": "LR"},
)

CONSOLES = (NEMO, NANOGPT, MODDED_NANOGPT, TORCHTITAN, OLMO, MAXTEXT, LLM_C, FAIRSEQ, COMPOSER, LITGPT, TIMM)
