"""Measurements on a GPU, in minutes: `python -m benchmarks.gpu [--minutes 9] [--store DIR] [--output DIR]`.

Does it compute what the CPU computes; how fast are the simulator and the trainer; do the loss and the critical batch
size move with the width, at widths that take a GPU? The command stops in time, and the same command goes on where it
stopped, also after it was killed. With `--toy` it rehearses on a CPU.
"""

import argparse
import dataclasses
import math
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks._gpu import agreement, device, goals, simulator, trainer, widths
from benchmarks._gpu.measurement import Measurement, Table
from benchmarks._gpu.sizes import FULL, TOY, Sizes
from experiments._lib.results import Verdict, write_result
from sgdtheory._common.arguments import positive_number
from sgdtheory._common.files import json_text, write_atomically
from sgdtheory.plotting.style import save
from sgdtheory.sweep import Progress

UNITS = {"agreement": agreement.UNITS, "simulator": simulator.UNITS, "trainer": trainer.UNITS}
GRACE = 20.0  # seconds beyond its time after which the command ends whatever it does
TOLD = 10.0  # seconds between two lines about the runs


class Clock:
    """The time that a call has.

    Args:
        minutes: from now on.
    """

    def __init__(self, minutes: float):
        self._start = time.monotonic()
        self._ends = self._start + 60 * minutes

    @property
    def left(self) -> float:
        """Seconds; below 0 when it is over."""
        return self._ends - time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        print(f"{time.monotonic() - self._start:5.0f} s  {text}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0: nothing is wrong, 1: a check fails, 2: bad arguments, 130: Ctrl-C."""
    arguments = _arguments(argv)
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")
    sizes = TOY if arguments.toy else FULL
    if jax.devices()[0].platform == "cpu" and not arguments.toy:
        print("benchmarks.gpu: JAX sees no GPU here; add --toy for a rehearsal at sizes of a CPU", file=sys.stderr)
        return 2
    clock, output = Clock(arguments.minutes), Path(arguments.output)
    end = threading.Timer(clock.left + GRACE, _leave, [clock])
    end.daemon = True
    end.start()
    try:
        return benchmark(sizes, clock, output, Path(arguments.store or output / "runs"), _peak(arguments))
    except KeyboardInterrupt:
        clock.say("interrupted; the same command goes on")
        return 130
    finally:
        end.cancel()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="that this call may take (9)")
    parser.add_argument("--store", help="folder that keeps the runs (OUTPUT/runs)")
    parser.add_argument("--output", default="results/gpu", help="folder of tables, figures and verdicts (results/gpu)")
    parser.add_argument("--peak-tflops", type=float, help="of the device, dense bfloat16, 10^12 operations a second")
    parser.add_argument("--peak-bandwidth", type=float, help="of the device's memory, 10^12 bytes a second")
    parser.add_argument("--toy", action="store_true", help="small sizes, as a rehearsal")
    found = parser.parse_args(argv)
    try:
        positive_number("--minutes", found.minutes)
        for name in ("peak_tflops", "peak_bandwidth"):
            if getattr(found, name) is not None:
                positive_number(f"--{name.replace('_', '-')}", getattr(found, name))
    except ValueError as error:
        parser.error(str(error))
    if (found.peak_tflops is None) != (found.peak_bandwidth is None):
        parser.error("--peak-tflops and --peak-bandwidth must be given together, got one of them")
    return found


def _peak(arguments: argparse.Namespace) -> device.Peak | None:
    if arguments.peak_tflops is None:
        return None
    return device.Peak(1e12 * arguments.peak_tflops, 1e12 * arguments.peak_bandwidth)


def _leave(clock: Clock) -> None:
    """End the process: what was measured is kept, and what was not is begun anew by the next call."""
    clock.say("time is up in the middle of a measurement or a compilation; the same command goes on")
    os._exit(0)


def benchmark(sizes: Sizes, clock: Clock, output: Path, store: Path, peak: device.Peak | None = None) -> int:
    """Measure and train what is not there yet, as long as the time lasts; 1 if a check fails, else 0."""
    _keep_compiled(output)
    own = device_of(sizes, output, peak)
    clock.say(f"{own.name}: peaks {own.peak_flops:.3g} FLOP/s and {own.peak_bandwidth:.3g} B/s, {own.source}")
    tables = {name: Table(output / f"{name}.csv", units) for name, units in UNITS.items()}
    write_atomically(output / "columns.json", json_text(UNITS))
    parts = {
        "agreement": agreement.measurements(sizes),
        "simulator": simulator.measurements(sizes, own),
        "trainer": trainer.measurements(sizes, own),
    }
    wrong = [measure(parts[name], tables[name], sizes, clock) for name in parts]
    found = goals.verdicts(tables, sizes, own)
    _write(output, found)
    save(goals.figure(tables, sizes, own), output / "speed")
    if clock.left > sizes.reserve:
        widths.train(sizes, store, clock.left - sizes.reserve, _Teller(clock))
    finished = widths.Finished(sizes, store)
    configs = finished.configs()
    for name, result in finished.results().items():
        write_result(output / name, configs[name], result)
        found += result.verdicts
    _tell(clock, found, sum(len(part) - len(tables[name].rows) for name, part in parts.items()), finished)
    return int(any(wrong) or "fails" in {each.verdict for each in goals.verdicts(tables, sizes, own)[:1]})


def _keep_compiled(output: Path) -> None:
    """Keep compiled programs for the next call; not those of a CPU, which another one may not understand."""
    if jax.devices()[0].platform != "cpu":
        jax.config.update("jax_compilation_cache_dir", str(output / "compiled"))


def device_of(sizes: Sizes, output: Path, peak: device.Peak | None) -> device.Device:
    """The device; what was measured of another one is set aside."""
    before = device.read(output)
    if before is not None and before.is_of(sizes, peak):
        return before
    if before is not None:
        number = 1
        while (aside := output / f"before-{number}").exists():
            number += 1
        aside.mkdir()
        for path in [output / device.FILE, *(output / f"{name}.csv" for name in UNITS), *output.glob("speed.*")]:
            if path.exists():
                path.rename(aside / path.name)
    found = device.describe(sizes, peak)
    device.write(output, found)
    return found


def measure(part: Sequence[Measurement], table: Table, sizes: Sizes, clock: Clock) -> bool:
    """Measure what the table lacks and time is left for; whether the device refused something."""
    refused = False
    for each in part:
        if each.name in table:
            continue
        if clock.left < sizes.patience * each.seconds:
            clock.say(f"{each.name}: left for the next call, it may take {each.seconds:.0f} s")
            continue
        try:
            row = each.measure()
        except RuntimeError as error:  # of JAX, or of cuDNN, which does not know every attention
            clock.say(f"{each.name}: {str(error).splitlines()[0]}")
            refused = True
            continue
        table.add(each.name, row)
        clock.say(f"{each.name}: {_words(row)}")
    return refused


def _words(row: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in row.items() if not isinstance(value, float) or math.isfinite(value)}
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in shown.items()
    )


class _Teller:
    """Tells now and then how many runs have ended."""

    def __init__(self, clock: Clock):
        self._clock, self._told = clock, -math.inf

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._told > TOLD:
            self._told = time.monotonic()
            self._clock.say(f"{progress.finished} of {progress.total} runs")


def _write(output: Path, found: Sequence[Verdict]) -> None:
    write_atomically(output / "verdicts.json", json_text([dataclasses.asdict(each) for each in found]))


def _tell(clock: Clock, found: Sequence[Verdict], rows_left: int, finished: widths.Finished) -> None:
    for line in goals.lines(found):
        clock.say(line)
    if not rows_left and finished.runs == finished.total:
        clock.say(f"all is measured, and all {finished.total} runs have ended")
    else:
        left = f"{rows_left} measurements and {finished.total - finished.runs} of {finished.total} runs are left"
        clock.say(f"{left}; the same command goes on")


if __name__ == "__main__":
    sys.exit(main())
