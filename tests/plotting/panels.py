"""Contents of a panel as it is drawn."""

import importlib
import pkgutil

from matplotlib.collections import LineCollection

from sgdtheory import plotting


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def points_of(axes, marker):
    """The data of the lines with this marker; the empty ones of the legend left out."""
    return [line.get_xydata() for line in axes.lines if line.get_marker() == marker and line.get_xydata().size]


def bars_of(axes):
    """Ends (low, high) of each error bar."""
    bars = [part for part in axes.collections if isinstance(part, LineCollection)]
    return [part.get_segments()[0][:, 1] for part in bars if part.get_segments()]


def replace_legends(patch, legend, legend_below):
    """Replace the functions that place legends, in every module that has them by name."""
    for info in pkgutil.iter_modules(plotting.__path__):
        module = importlib.import_module(f"sgdtheory.plotting.{info.name}")
        for name, function in (("legend", legend), ("legend_below", legend_below)):
            if hasattr(module, name):
                patch.setattr(module, name, function)
