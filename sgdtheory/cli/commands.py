"""The commands, where they are defined, and what each does in a line."""

import importlib

COMMANDS = {
    "risk": ("risk.RiskCommand", "exact risk of mini-batch SGD on a power law, beside Theorem 7's bound"),
    "simulate": ("simulate.SimulateCommand", "simulated risk beside the exact one"),
    "cbs": ("cbs.CbsCommand", "critical batch size of a power law"),
    "fit": ("fit.FitCommand", "critical batch size from your measurements of steps to a target"),
    "train": ("train.TrainCommand", "train a network to a target loss"),
    "sweep": ("sweep.SweepCommand", "train a grid of networks into a store of runs"),
    "coordcheck": ("coordcheck.CoordcheckCommand", "do activations keep their size as the width grows?"),
}


def command_class(name: str) -> type:
    """The dataclass of a command, imported now."""
    module, kind = COMMANDS[name][0].split(".")
    return getattr(importlib.import_module(f"sgdtheory.cli.{module}"), kind)
