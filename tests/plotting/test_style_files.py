"""New figures, colours, labels, and the files that figures are written to."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from sgdtheory.plotting.style import colors, figure_of, new_figure, panel, plain_label, power_of_ten, save

WITHOUT_PYPLOT = """
import sys
import matplotlib
before = dict(dict.items(matplotlib.rcParams))
import sgdtheory as st
from sgdtheory import plotting
groups = st.example_measurements()
laws = [st.fit_steps_law(group.batch_sizes, group.steps) for group in groups]
figure, axes = plotting.new_figure()
plotting.steps_laws(groups, laws, axes=axes[0, 0])
plotting.save(figure, sys.argv[1], formats=["png"])
assert dict(dict.items(matplotlib.rcParams)) == before
assert "matplotlib.pyplot" not in sys.modules
"""


def test_new_figure_has_its_axes():
    figure, axes = new_figure(2, 3, width=2.0, height=1.5)
    assert axes.shape == (2, 3)
    assert figure.axes == list(axes.flat)
    assert tuple(figure.get_size_inches()) == (6.0, 3.0)
    assert not axes[0, 0].spines["top"].get_visible()


def test_save_writes_png_and_pdf(tmp_path):
    """The dot in the name is kept; fonts are TrueType, searched and edited, and not Type 3, which journals refuse."""
    figure, axes = new_figure()
    axes[0, 0].set_title("critical batch size")
    png, pdf = save(figure, tmp_path / "new" / "alpha_1.3")
    assert (png.name, pdf.name) == ("alpha_1.3.png", "alpha_1.3.pdf")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert pdf.read_bytes().rstrip().endswith(b"%%EOF")
    assert b"/FontFile2" in pdf.read_bytes()
    assert b"/Type3" not in pdf.read_bytes()
    assert sorted(png.parent.iterdir()) == [pdf, png]


def test_save_in_one_format(tmp_path):
    (written,) = save(new_figure()[0], str(tmp_path / "figure.svg"), formats=["svg"])
    assert written == tmp_path / "figure.svg"
    assert "<svg" in written.read_text()


def test_unknown_format_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="Format 'xyz' is not supported"):
        save(new_figure()[0], tmp_path / "figure", formats=["xyz"])
    assert list(tmp_path.iterdir()) == []


def test_settings_are_restored_after_a_failure(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        save(new_figure()[0], tmp_path / "file" / "figure")


def test_neither_pyplot_nor_global_settings(tmp_path):
    command = [sys.executable, "-c", WITHOUT_PYPLOT, str(tmp_path / "figure")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "figure.png").exists()


@pytest.mark.parametrize("number", [1, 2, 9])
def test_colors_are_distinct_and_get_lighter(number):
    found = colors(number)
    assert found.shape == (number, 4)
    lightness = [np.dot(to_rgb(color), (0.2126, 0.7152, 0.0722)) for color in found]
    assert (np.diff(lightness) > 0).all()


def test_names_from_files_are_plain_text():
    assert plain_label("$x_1$ a_b") == r"\$x_1\$ a_b"
    assert plain_label("_small").lstrip("\u200b") == "_small"
    assert not plain_label("_small").startswith("_")


@pytest.mark.parametrize(
    ("value", "label"),
    [(10, "10^{1}"), (1e12, "10^{12}"), (1e-3, "10^{-3}"), (1, "10^{0}"), (500, "500"), (2.5e3, "2500"), (9.9, "9.9")],
)
def test_powers_of_ten_are_written_as_such(value, label):
    assert power_of_ten(value) == label


def test_a_panel_is_given_or_new():
    figure, axes = new_figure(1, 2)
    assert panel(axes[0, 1]) is axes[0, 1]
    assert figure_of(axes[0, 1]) is figure
    new = panel(None, width=5.0, height=2.0)
    assert figure_of(new).axes == [new]
    assert tuple(figure_of(new).get_size_inches()) == (5.0, 2.0)


def test_the_figure_of_a_panel_in_a_part_of_a_figure():
    figure, _ = new_figure()
    part = figure.add_subfigure(figure.add_gridspec(1, 1)[0])
    assert figure_of(part.subplots()) is figure
