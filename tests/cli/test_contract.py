"""All commands: what each refuses and why, which keys its JSON has, and the preview of a log."""

import shlex

import pytest

from sgdtheory.cli.commands import COMMANDS, MOVED
from tests.cli.text import RISK

RISK_TEXT = " ".join(RISK)
POWER = "--capacity 2 --source 3 --dim 20"
PATH = f"path {POWER} --batch-size 16 --learning-rate 0.3 --num-samples 16000"
SIMULATE = f"simulate {POWER} --batch-size 4 --learning-rate 0.3 --num-samples 400 1000"
DISTRIBUTED = "--coordinator, --num-processes and --process-id need --distributed"
SCHEDULE = "schedule --capacity 2 --source 3 --num-samples 320"
FRESH = "--samples must be left out: this command needs fresh samples"
SPECTRUM = "--batch-size 4 --learning-rate 0.2 --num-samples 200"
ADVISE = "advise --batch-size 64 --learning-rate 3e-4 --optimizer adamw"
PLAN = "plan steps.csv --group g --throughput 2"
USAGE = {  # command → the one line on standard error, whatever the width of the screen
    "rsik": "rsik is not a command, did you mean risk? (see sgdtheory --help)",
    "zzz": "zzz is not a command (see sgdtheory --help)",
    "risk --capacity 2": "risk needs --source, --batch-size, --learning-rate, --num-samples too (see sgdtheory risk "
    "--help)",
    "fit --level high": "--level must be a number, got high (see sgdtheory fit --help)",
    "fit-curves --num-samples 1e4 ten --json": "--num-samples must be numbers, got 1e4 ten (see sgdtheory fit-curves "
    "--help)",
    "plan a.csv --batch-sizes 64": "--batch-sizes must be two numbers, got 64 (see sgdtheory plan --help)",
    "plan a.csv --devices 1.5": "--devices must be whole numbers, got 1.5 (see sgdtheory plan --help)",
    "fit --overhead x": "--overhead must be a share such as 0.2 or 20%, got x (see sgdtheory fit --help)",
    "fit --level": "--level must be a number, got nothing (see sgdtheory fit --help)",
    "plan a.csv b.csv": "cannot read a.csv: No such file or directory",
    "forecast a.csv b.csv": "Unrecognized options: b.csv (see sgdtheory forecast --help)",
    "fit --xyzzy 1": "--xyzzy is not a flag of sgdtheory fit (see sgdtheory fit --help)",
    "train --batchsize=3": "--batchsize is not a flag of sgdtheory train, did you mean --batch-size? (see sgdtheory "
    "train --help)",
    "--print-completion fish": "print-completion must be one of bash, zsh, got fish",
}
REFUSALS = {  # command → part of the one line on standard error, with exit status 2
    "--print-completion": "must be one of bash, zsh",
    "risk --lr 3": "--lr is not a flag of sgdtheory risk, did you mean --learning-rate?",
    "cbs --lr 3": "--lr is not a flag of sgdtheory cbs (see",  # which tunes the learning rate
    f"{RISK_TEXT} --num-samples 9 --schedule cosin": "got cosin, did you mean cosine?",
    f"{RISK_TEXT} --num-samples 9": "--num-samples must be at least --batch-size (one step)",
    f"{RISK_TEXT} --num-samples": "need at least one value each",
    f"{RISK_TEXT} --num-samples 1e4 --method muon": "no risk of 'muon' is known in theory; sgdtheory simulate runs it",
    f"{RISK_TEXT} --num-samples 1e4 --clip-norm 1": "no risk of clipped gradients is known in theory; sgdtheory",
    f"{RISK_TEXT} --num-samples 1e4 --method adam --basis rotated": "--basis must be one of eigenvectors, random, got",
    f"risk {SPECTRUM}": "risk needs --capacity, --source too",
    f"risk {SPECTRUM} --spectrum spectrum.csv --capacity 2": "capacity belongs to a power law",
    f"risk {SPECTRUM} --spectrum none.csv": "spectrum must be a file that exists",
    f"risk {SPECTRUM} --spectrum text.npz": "spectrum must be a CSV or .npz file",
    f"risk {SPECTRUM} --spectrum words.csv": "signal must be numbers",
    f"bounds {POWER} --batch-size 1 --learning-rate 0.1 --num-samples 1e4 1e5": "--num-samples must be one value for a "
    "table of bounds, got 2",
    f"bounds {POWER} --batch-size 1 --learning-rate 0.1 --num-samples 1e4 --samples 100": FRESH,
    f"{SCHEDULE} --samples 100": FRESH,
    f"risk {POWER} {SPECTRUM} --samples 0": "--samples must be a whole number of at least 1",
    "cbs --capacity 3 --source 2 --num-samples 1e4 --precondition 0.8": "precondition must be below 1 − 1/a = 0.666667",
    f"cbs {POWER} --num-samples 200 --method normalized --momentum 0.5 --schedule linear --average last": "no risk of "
    "'normalized momentum=0.5 linear last' is known in theory; ",
    f"cbs {POWER} --num-samples": "at least one value",
    f"cbs {POWER} --num-samples 100 --plot figure.jpg": "plot must end in .png, .pdf or .svg, got figure.jpg",
    f"cbs {POWER} --num-samples 20 --plot folder.png": "plot must name a file, got the folder",
    f"cbs {POWER} --num-samples 20 --plot new/one/a.png": "plot must lie in a folder that exists, or in a",
    "fit steps.csv --group g --plot /dev/null/a.png": "/dev/null",
    f"cbs {POWER} --num-samples 20 --dim 2.5": "--dim must be a whole number, got 2.5",
    f"cbs {POWER} --num-samples 20 --dim nan": "--dim must be a whole number, got nan",
    f"cbs {POWER} --num-samples 20 --dim 1e999999999": "--dim must be a whole number, got 1e999999999",
    f"{PATH} --algorithm": "--algorithm must be texts, got nothing",
    "fit --preview=True": "--preview must be left without a value, got True",
    "fit steps.csv --group": "--group must be a text, got nothing",
    f"{PATH} --algorithm cosin": "algorithm 'cosin': a word of an algorithm without = must be one of sgd, ",
    f"{PATH} --algorithm heavy-ball": "algorithm 'heavy-ball': method heavy-ball needs momentum too",
    f"{PATH} --algorithm last --algorithm cosine --algorithm ' last '": "algorithm must be given once each, got 'last' "
    "twice",
    f"{PATH} --algorithm 'normalized momentum=0.5'": "algorithm 'normalized momentum=0.5': no risk of 'normalized "
    "momentum=0.5' is known in theory; sgdtheory simulate runs",
    f"{PATH} --algorithm learning-rate=0": "--learning-rate must be positive and finite, got 0",
    f"{PATH} --points 1": "points must be a whole number of at least 2, got 1",
    f"{SCHEDULE} --batch-size 16 --method schedule-free": "method must be SGD()",
    f"{SCHEDULE} --batch-size 16 --num-steps 10": "--num-steps must be left out",
    f"{SIMULATE} --num-replicas 1": "num-replicas must be at least 2 for a standard error, got 1",
    f"{SIMULATE} --num-samples": "need at least one value each",
    f"{SIMULATE} --simulated-dim 0": "simulated-dim must be a whole number of at least 1, got 0",
    f"{SIMULATE} --simulated-dim 1": "for these settings: with 1 of 20 directions the mean would be off by",
    f"{SIMULATE} --law cauchy": "--law must be one of gaussian, rademacher, student_t, got cauchy",
    f"{SIMULATE} --seed {2**70}": "seed",
    f"{SIMULATE} --coordinator localhost:1": DISTRIBUTED,
    f"{SIMULATE} --num-processes 2": DISTRIBUTED,
    f"{SIMULATE} --process-id 0": DISTRIBUTED,
    f"{SIMULATE} --distributed --coordinator localhost": "HOST:PORT, for example localhost:1234, got localhost",
    f"{SIMULATE} --distributed --coordinator localhost:": "for example localhost:1234, got localhost:",
    f"{SIMULATE} --distributed --coordinator localhost:port": "for example localhost:1234, got localhost:port",
    "fit-curves log.csv --optimizer sgd --hold-out none": "hold-out must name curves, got none; there are log",
    "fit-curves log.csv --optimizer sgd --hold-out log": "hold-out must leave curves to fit",
    "fit-curves count.csv": "count: no column counts optimizer steps; name it, --step",
    "fit-curves --preview": "preview needs files: name logs",
    "fit-curves --example 1B": "model must be one of",
    "fit-curves log.csv --loss nll": "no log has a column 'nll'; there are: 'step'",
    "fit-curves none.csv": "cannot read",
    "fit-curves log.csv": "the optimizer is not named: give --optimizer",
    "forecast log.csv": "num-steps must be given: the log does not say",
    "forecast log.csv --num-steps 24000 --schedule cosinus": "cosinus",
    "forecast none.csv --num-steps 24000": "none.csv",
    "forecast log.csv --num-steps 999": "the optimizer is not named: give --optimizer",
    "forecast log.csv --num-steps 999 --follow": "the optimizer is not named: give --optimizer",
    f"{ADVISE} --num-samples 1e6": "nothing changes: give --new-batch-size, --new-num-samples, or both",
    f"{ADVISE} --new-num-samples 1e6": "--new-num-samples needs the data of the run now: give --num-samples, or --num-",
    f"{ADVISE} --num-samples 1e6 --new-num-samples 0": "--new-num-samples must be",
    f"{ADVISE} --num-samples 1e6 --new-num-samples 1e5 --warmup 2000": "give fewer warmup_steps (--warmup)",
    f"{ADVISE} --num-samples 1e6 --num-steps 10 --new-num-samples 1e5": "--num-samples must be --num-steps × "
    "--batch-size 640",
    "advise --new-batch-size 256 --batch-size 64": "the learning rate now is not known: give --learning-rate\n",
    "advise log.csv --new-batch-size 256": "the batch size now is not known: give --batch-size",
    "advise log.csv --batch-size 8 --new-batch-size 16": "the optimizer is not named: give --optimizer",
    "advise ramp --target-loss 2.3 --new-batch-size 8 --critical-batch-size 9": "leave one of them out",
    "advise ramp --new-batch-size 8 --target-loss 2.3": "the optimizer is not named: give --optimizer",
    "features none.npy y.npy": "features must be a file that exists",
    "features X.npy": "features needs TARGETS too",
    "features X.npy short.npy": "targets must have one row for each of the 150",
    "features X.npy y.npy --write s.txt": "write must end in .npz or .csv",
    "features": "features needs FEATURES, TARGETS too",
    "features X.npy y.npy --method sign": "--method is not a flag of sgdtheory features: it goes by the theory of SGD "
    "alone",
    "noise-scale log.csv --small-batch 4 --large-batch 32 --small-norms nope": "no log has a column 'nope'",
    "noise-scale --small-batch 4 --large-batch 32": "needs LOG",
    "noise-scale two.csv --small-batch 4 --large-batch 32": "holds 2 runs (a, b): give the log of one",
    "fit steps.csv --group g --level 1": "level must lie between 0 and 1, got 1",
    "fit steps.csv --group g --steps Z": "has no column 'Z'; its columns are: 'g', 'size', 'batch_size', 'steps'",
    "fit steps.csv --group g --overhead 20": "20 would be 2000%; write 20% or 0.2, or 2000% if meant",
    "fit steps.csv --group g --overhead 1.5": "1.5 would be 150%; write 1.5% or 0.015, or 150% if meant",
    "fit-grid grid.csv --degradation 5": "--degradation is a share: 5 would be 500%; write 5% or 0.05",
    "fit steps.csv --group g --size size --forecast 100 0": "forecast",
    "fit steps.csv --group g --forecast 100": "forecast needs a column of sizes (--size)",
    "fit steps.csv": "line 6: batch_size 64 occurs twice, with different g; keep its best run, or name the column",
    "fit empty.csv": "empty.csv",
    "fit broken-header.csv": "broken-header.csv",
    "fit broken-cell.csv": "broken-cell.csv",
    "fit short-row.csv": "short-row.csv",
    "fit --group model": "give the file too",
    "fit --standard-error se": "give the file too",
    "fit steps.csv --data mlperf": "data names measurements of the package",
    "fit nothing.csv": "nothing.csv: No such file or directory",
    "fit --alpha-range 1 1 --fit-alpha": "--alpha-range is of the law a + b/B: leave out --fit-alpha",
    "fit --optimal-batch-size --fit-alpha": "--fit-alpha and --optimal-batch-size are two laws",
    "fit --pool-scatter": "give --optimal-batch-size too",
    "fit --example --json": "leave everything else out",
    "fit steps.csv --example": "leave everything else out",
    "fit runs --target-loss 3": "bs128/train: batch size not known",
    "fit runs --target-loss 3 --loss train": "or name of the run → B",
    "fit runs --target-loss 2.01 --batch-size 8": "is not reached at 3 batch sizes",
    "fit runs --target-loss 30 --batch-size 8": "all 3 runs are already below it at their first row (step 10 or",
    "fit runs --target-loss 3 --batch-size a=x": "run=64,other=256",
    "fit --target-loss 3": "--target-loss needs logs: name files or folders",
    "fit runs": "runs is a folder, not a table of measurements; add --target-loss LOSS",
    "fit runs/bs32/train.log": "train.log is a log, not a table of measurements; add --target-loss LOSS",
    "fit empty --target-loss 3": "holds no log of a known format",
    "fit ramp --target-loss 3 3": "target-loss must not repeat a loss",
    "fit ramp --target-loss 3 1": "target-loss 1 is not reached",
    "fit-grid runs --sequence-length 2048": "no learning rate is logged",
    "fit-grid steps.csv": "has no column 'samples'; its columns are: 'g', 'size'",
    "fit-grid grid.csv --size size": "has no column 'size'; its columns are: 'batch_size', 'samples'",
    "fit-grid --json": "fit-grid needs a CSV file of losses, or logs",
    "fit-law": "fit-law needs a CSV file of losses, or logs",
    "fit-law grid.csv": "table must have a column size",
    "fit-law grid.csv --parameters 1e9": "--parameters and --num-samples belong together",
    "fit-rates": "fit-rates needs a CSV file of losses, or logs",
    "fit-rates steps.csv": "has no column 'samples'",
    PLAN: "target must name the group to plan for, one of s, l",
    f"{PLAN} --target m": "target must be one of s, l, got m",
    f"{PLAN} --target s --throughput-table x.csv": "throughput-table, one of the two",
    f"{PLAN} --target s --deadline soon": "such as 72h, 3d or 90min, got soon",
    f"{PLAN} --target s --trainer hf": "learning-rate must be a number for trainer hf",
    f"{PLAN} --target s --trainer olmo --learning-rate 1": "sequence-length must be",
    "plan steps.csv --group g --target s": "give --throughput",
    "plan counts.csv --throughput 2": "has no column 'steps'",
    "plan none.csv --throughput 2": "cannot read",
    "plan log.csv --throughput 2 --schedule": "schedule needs several losses on the way: --target-loss",
    "plan log.csv --throughput 2 --optimizer sgd --target x": "target must be one of no group, got x",
    "plan log.csv --throughput 10": "the optimizer is not named: give --optimizer",
    "plan ramp --target-loss 3 2.3 --trainer hf": "the optimizer is not named: give --optimizer",
    "plan ramp --target-loss 3 2.3 --trainer maxtext --optimizer adam": "devices must be given for trainer maxtext",
    "plan ramp --target-loss 2.3": "give --throughput",
    "plan ramp --target-loss 3 2.3 --deadline 3d": "deadline needs a throughput: give --throughput",
    "train --preset 86M": "preset must be one of",
    "train --preset 85M": "give --tokens FILE",
    "train --num-heads 4": "--num-heads 4 does not matter with model mlp: leave it out",
    "train --preset bytes --momentum 0.5": "momentum = 0.5 does not matter with optimizer adam",
    "coordcheck --beta2 0.99 --optimizer=sgd": "beta2 = 0.99 does not matter with optimizer sgd",
    "resume nowhere": "nowhere is not the directory of a run",
    "resume nowhere --width 32": "--width is not a flag of sgdtheory resume",
    "resume --max-steps 3": "resume needs DIRECTORY too",
    "sweep --store none": "sweep needs GRID too",
    "sweep none.toml": "cannot read none.toml: No such file",
    "sweep grid.toml --store grid.toml": "cannot write to the store",
    "sweep grid.toml --store made --lanes 0": "lanes must be a whole number of at least 1, got 0",
    "sweep grid.toml --store made --cluster slurm --jobs 0": "jobs must be a whole number",
    "sweep misspelt.toml --store none": "got witdh (did you mean width?)",
    "sweep grid.toml --scatter 0.1": "--scatter is not a flag of sgdtheory sweep",
    "sweep grid.toml --where width=8": "--where is not a flag of sgdtheory sweep",
    "plan-sweep": "plan-sweep needs GRID too",
    "show-sweep none": "store must be a folder of runs, got",
    "show-sweep none --target-loss 1": "--target-loss is not a flag of sgdtheory show-sweep",
    "extend-sweep none": "store must be a folder of runs, got",
}
KEYS = {  # command → keys of its JSON beside "notes"
    "advise log.csv --batch-size 64 --new-batch-size 256 --optimizer sgd": "optimizer batch_size "
    "new_batch_size num_samples new_num_samples headline unknown rows",
    "noise-scale norms.csv --small-batch 4 --large-batch 32": "noise_scale interval level rows left_out "
    "squared_gradient trace drift path",
    "fit steps.csv --group g --size size": "convention level groups power_law forecasts sensitivity",
    "fit-grid grid.csv": "groups convention level targets degradation laws",
    "fit-rates grid.csv": "no_kink deviation sharpness settings bounds level exponents kinks",
    "plan steps.csv --group g --target s --throughput 2": "choice reachable knee knee_interval critical_batch_size "
    "critical_batch_size_interval smallest_batch_size smallest_batch_size_interval optimal_batch_size "
    "optimal_batch_size_interval max_micro_batch reference overhead level rows",
}


@pytest.fixture(autouse=True)
def _in_the_folder(monkeypatch, folder):
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("command", USAGE)
def test_usage_errors_are_one_sentence_said_once(command, fails, monkeypatch):
    for columns in ("30", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert fails(*shlex.split(command)) == f"sgdtheory: {USAGE[command]}\n"


@pytest.mark.parametrize("command", REFUSALS)
def test_refusals(fails, folder, command):
    assert REFUSALS[command] in fails(*shlex.split(command))
    assert not (folder / "none").exists()


def test_old_spellings_are_refused_with_the_new_command(fails):
    for command, flags in MOVED.items():
        for flag, new in flags.items():
            assert new.split()[0] in COMMANDS
            sentence = f"{flag} of sgdtheory {command} is a command now: sgdtheory {new}"
            assert fails(command, flag, "x") == f"sgdtheory: {sentence}\n"


@pytest.mark.parametrize("command", ["fit", "fit-curves", "fit-grid", "show-sweep", "sweep", "resume", "features"])
def test_a_name_of_thousands_of_letters(command, fails):
    assert len(fails(command, *["x" * 5000] * (1 + (command == "features")))) < 500


PLANS = "plan --throughput 2", "plan --throughput 2 --target-loss 3"


@pytest.mark.parametrize("command", ["fit-curves", "forecast", *PLANS, "fit", "fit-grid"])
def test_previews(run, command):
    """The same of every command that reads logs, and nothing that its other flags ask for is missed."""
    name, *flags = command.split()
    assert run(name, "log.csv", "--preview", *flags).startswith("log: CSV, 20 rows")


@pytest.mark.parametrize("command", KEYS)
def test_keys(run, command):
    assert {*KEYS[command].split(), "notes"} == set(run.json(*shlex.split(command)))
