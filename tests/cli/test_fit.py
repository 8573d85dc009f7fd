import numpy as np
import pytest

import sgdtheory as st
from tests.cli.text import BATCHES, COLUMNS, cells, strict_json
from tests.marks import slow


@pytest.mark.parametrize(
    ("form", "more"),
    [({}, []), ({"alpha_range": (0.9, 1.1)}, ["--alpha-range", 0.9, 1.1]), slow({"alpha": None}, ["--fit-alpha"])],
)
def test_fit_json(run, table_file, form, more):
    fitted = "alpha" in form
    flags = ["--reference", 128, "--overhead", 0.5, "--level", 0.9, "--forecast", 1000, 5000, "--json"]
    found = strict_json(run("fit", table_file, *COLUMNS, *flags, *more))
    convention = {"reference": 128, "overhead": 0.5}
    assert found["convention"] == convention
    assert found["level"] == 0.9
    groups = st.read_measurements(table_file, batch_size="B", steps="Y", group="model", size="N")
    laws = [st.fit_steps_law(group.batch_sizes, group.steps, **form) for group in groups]
    assert [row["group"] for row in found["groups"]] == ["small", "medium", "large"]
    assert [row["size"] for row in found["groups"]] == [10, 40, 160]
    for row, law in zip(found["groups"], laws, strict=True):
        assert (row["a"], row["b"], row["alpha"]) == (law.a, law.b, law.alpha)
        assert row["residual_std"] == law.residual_std
        assert row["critical_batch_size"] == law.critical_batch_size(**convention)
        for name in ("alpha",) if fitted else ("a", "b", "alpha", "critical_batch_size"):  # with fitted α it is slow
            ends = [end if np.isfinite(end) else None for end in law.interval(name, 0.9, **convention)]
            assert row[f"{name}_interval"] == ends
        assert (row["alpha_interval"] == [1.0, 1.0]) is not fitted
    power = st.fit_power_law([10, 40, 160], [law.critical_batch_size(**convention) for law in laws])
    assert found["power_law"] == {
        "coefficient": power.coefficient,
        "exponent": power.exponent,
        "exponent_interval": list(power.interval(0.9)),
    }
    for row, size in zip(found["forecasts"], (1000, 5000), strict=True):
        assert row["size"] == size
        assert row["critical_batch_size"] == pytest.approx(power.predict(size), rel=1e-14)
        assert row["interval"] == pytest.approx(power.prediction_interval(size, 0.9), rel=1e-12)
    for row, expected in zip(found["sensitivity"], st.sensitivity(laws, [10, 40, 160], level=0.9), strict=True):
        assert row["reference"] == expected.reference
        assert row["overhead"] == expected.overhead
        assert row["critical_batch_sizes"] == list(expected.critical_batch_sizes)
        assert row["exponent"] == expected.exponent
        assert row["exponent_interval"] == list(expected.interval)


def test_fit_of_the_example(run):
    found = run.json("fit")
    laws = [st.fit_steps_law(group.batch_sizes, group.steps) for group in st.example_measurements()]
    assert [row["a"] for row in found["groups"]] == [law.a for law in laws]
    assert found["convention"] == {"reference": 256, "overhead": 0.2}
    assert found["forecasts"] == []


def test_fit_table_and_figure(run, table_file, tmp_path):
    path = tmp_path / "out" / "figure.v1.svg"
    out = run("fit", table_file, *COLUMNS, "--level", 0.9, "--forecast", 1000, "--plot", path)
    assert path.read_bytes().startswith(b"<?xml")
    assert list(path.parent.iterdir()) == [path]
    assert "20% more data than at B = 64" in out  # the smallest that all three have
    group = st.read_measurements(table_file, batch_size="B", steps="Y", group="model", size="N")[1]
    law = st.fit_steps_law(group.batch_sizes, group.steps)
    a, b, critical = (
        " … ".join(f"{end:.4g}" for end in law.interval(name, 0.9, reference=64))
        for name in ("a", "b", "critical_batch_size")
    )
    values = [f"{value:.4g}" for value in (law.a, law.b, law.critical_batch_size(64))]
    assert cells(out, "medium") == ["medium", values[0], a, values[1], b, values[2], critical]
    assert cells(out, "1,000")
    assert "90%, new measurement" in out
    assert "size^" in out


def test_fit_without_groups_and_sizes(run, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("batch_size,steps\n64,48000\n512,7800\n4096,2200\n")
    assert len(cells(run("fit", path), "all")) == 7
    assert "steps = a + b/B; " in run("fit", path)
    found = run.json("fit", path, "--plot", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert sorted(found) == ["convention", "groups", "level", "notes"]
    (row,) = found["groups"]
    assert (row["group"], row["size"]) == ("", None)


def test_an_infinite_critical_batch_size_is_inf_in_json(run, tmp_path):
    path = tmp_path / "linear.csv"
    path.write_text("batch_size,steps\n" + "".join(f"{batch},{3e6 / batch!r}\n" for batch in BATCHES))
    (row,) = run.json("fit", path)["groups"]
    assert row["a"] == 0
    assert row["critical_batch_size"] == "inf"
    assert row["critical_batch_size_interval"][1] == "inf"
    out = run("fit", path)
    assert cells(out, "all")[5] == "∞"
    assert out.startswith("B* is not determined: its 95% interval is ")


def test_the_first_line_has_the_answer(run, tmp_path):
    """Of a single group B*; of several, which of them do not determine it."""
    path = tmp_path / "one.csv"
    path.write_text("batch_size,steps\n64,48000\n512,7800\n4096,2200\n")
    assert run("fit", path).splitlines()[0].endswith(", 95%), 20% more data than at B = 64")
    rows = [f"straight,{batch},{3e6 / batch!r}\nbent,{batch},{1000 + 1e6 / batch!r}\n" for batch in BATCHES]
    path.write_text("model,batch_size,steps\n" + "".join(rows))
    first = run("fit", path, "--group", "model").splitlines()[0]
    assert first.startswith("B* is not determined (95%) for straight, ")
    assert "bent" not in first


def test_a_reference_beyond_the_knee_is_remarked(run, tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("batch_size,steps\n" + "".join(f"{batch},{2400 + 1e5 / batch!r}\n" for batch in (2048, 4096, 8192)))
    assert "so B* is close to 1.2 × 2048 = 2458" in " ".join(run.json("fit", path)["notes"])


def test_group_names_are_printed_as_they_are(run, tmp_path):
    """Square brackets are markup to the library that draws the table."""
    path, names = tmp_path / "steps.csv", ("gpt [v2]", "[bold]x", "[/x]")
    rows = [f"{name},{batch},{1000 + 1e6 / batch!r}\n" for name in names for batch in BATCHES]
    path.write_text("model,batch_size,steps\n" + "".join(rows))
    out = run("fit", path, "--group", "model")
    assert all(cells(out, name) for name in names)


ONE_LEFT = "3 batch sizes for 2 parameters leave one degree of freedom (t = 12.7 at 95%): the intervals are as wide as"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("8,1000\n16,520\n32,300\n64,200", ["the law's shape is in doubt: α = 1.13"]),  # the reference is the smallest
        ("64,1000\n256,800\n512,1100\n1024,1400", ["steps do not fall with the batch size"]),
        ("64,8000\n256,2000\n1024,500", ["no plateau was measured", ONE_LEFT]),
        ("64,8000\n256,2200\n1024,700\n4096,350", []),
    ],
)
def test_notes_on_a_doubtful_critical_batch_size(notes, rows, expected, tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text(f"batch_size,steps\n{rows}\n")
    out, lines = notes("fit", path, "--json")
    assert all(note in line for note, line in zip(expected, lines, strict=True))
    assert len(strict_json(out)["notes"]) == len(expected)


@pytest.mark.parametrize(
    ("number", "level", "expected"),
    [
        (2, 0.95, ["two sizes show no scatter: the exponent's interval is unlimited"]),
        (3, 0.8, ["three sizes for the exponent and its coefficient leave one degree of freedom (t = 3.1 at 80%)"]),
        (4, 0.95, []),
    ],
)
def test_notes_on_few_sizes(notes, number, level, expected, tmp_path):
    path = tmp_path / "steps.csv"
    sizes = [10 * 4**power for power in range(number)]
    rows = [(size, batch, 1000 + 500 * size**0.5 * 256 / batch) for size in sizes for batch in BATCHES]
    path.write_text("N,batch_size,steps\n" + "".join(f"{size},{batch},{steps!r}\n" for size, batch, steps in rows))
    _, lines = notes("fit", path, "--group", "N", "--size", "N", "--reference", 64, "--level", level)
    lines = [line for line in lines if "lies outside" not in line]
    assert all(note in line for note, line in zip(expected, lines, strict=True))


def test_the_example_is_a_file_to_fit(run, tmp_path):
    """The two commands of the guide, one after the other, find what `fit` alone finds."""
    (tmp_path / "steps.csv").write_text(run("fit", "--example"))
    columns = ["--batch-size", "bs", "--steps", "steps", "--group", "model", "--size", "params"]
    found = run("fit", tmp_path / "steps.csv", *columns, "--forecast", "7000", "--reference", 256, "--json")
    assert strict_json(found) == run.json("fit", "--forecast", "7000")


def test_the_benchmarks(run):
    """Each by its own smallest batch size, with the test of the law."""
    found = run.json("fit", "--data", "mlperf")
    assert found["convention"] == {"reference": None, "overhead": 0.2}
    rows = {row["group"]: row for row in found["groups"]}
    bert = next(each for each in st.example_measurements("mlperf") if each.group == "bert")
    law = st.fit_steps_law(bert.batch_sizes, bert.steps, standard_errors=bert.standard_errors)
    assert rows["bert"]["critical_batch_size"] == law.critical_batch_size(256, 0.2)
    assert rows["bert"]["lack_of_fit"] == law.lack_of_fit._asdict()
    assert rows["bert"]["misfit"] == law.misfit


def test_standard_errors_in_a_table(run, tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("batch_size,steps,se\n64,48000,500\n256,14000,150\n1024,5000,60\n4096,2700,30\n")
    out = run("fit", path, "--standard-error", "se", "--plot", tmp_path / "figure.svg")
    law = st.fit_steps_law(
        [64, 256, 1024, 4096], [48000, 14000, 5000, 2700], standard_errors=[5 / 480, 15 / 1400, 6 / 500, 3 / 270]
    )
    p_value = f"{law.lack_of_fit.p_value:.1g}"
    assert cells(out, "all")[-3:] == [f"{law.chi_square:.3g} / 2", p_value, f"{law.misfit:.1%}"]


# ------------------------------------------------------------------ an optimal batch size, and one reference

RANGE = "smallest_batch_size", "optimal_batch_size", "critical_batch_size"


def curved_laws(measured):
    return [st.fit_steps_law(each.batch_sizes, each.steps, optimal_batch_size=True) for each in measured]


def test_the_optimal_batch_size(run, table_file):
    found = run.json("fit", table_file, *COLUMNS, "--optimal-batch-size")
    measured = st.read_measurements(table_file, batch_size="B", steps="Y", group="model", size="N")
    for row, law in zip(found["groups"], curved_laws(measured), strict=True):
        assert (row["a"], row["b"], row["c"]) == (law.a, law.b, law.c)
        assert row["optimal_batch_size"] == law.optimal_batch_size
        assert row["smallest_batch_size"] == law.smallest_batch_size(64)
        assert row["critical_batch_size"] == law.critical_batch_size(64)
        assert row["curvature_test"] == law.curvature_test()._asdict()
        for name in ("a", "b", "c", *RANGE):
            ends = [end if np.isfinite(end) else None for end in law.interval(name, reference=64)]
            assert row[f"{name}_interval"] == ends


def test_a_scatter_of_all_groups(run):
    laws = curved_laws(st.example_measurements())
    scatter = st.fits.pooled_scatter(laws)
    found = run.json("fit", "--optimal-batch-size", "--pool-scatter")
    assert found["scatter"] == scatter._asdict()
    for row, law in zip(found["groups"], laws, strict=True):
        assert row["curvature_test"]["p_value"] == law.curvature_test(scatter).p_value
        assert row["b_interval"] == list(law.interval("b", scatter=scatter))
    assert sum("c is not needed" in note for note in found["notes"]) == 3


def test_the_table_of_the_optimal_batch_size_says_what_overheads_count_from(run, tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("batch_size,steps\n16,29000\n32,10100\n64,4100\n256,1310\n1024,720\n")
    out = run("fit", path, "--optimal-batch-size", "--plot", tmp_path / "range.png")
    assert "20% more data than at each group's B_opt or at B = 16, the larger" in out
    assert "c = 0: p-value" in out
    assert cells(out, "all")[4:9:2] == ["34.09", "90.25", "238.9"]
    assert cells(out, "all")[-1] == "0.0022"
    assert (tmp_path / "range.png").stat().st_size > 10_000


def test_one_reference_for_groups_with_other_batch_sizes(run, tmp_path):
    """32 is the smallest that both have; without any in common each has its own."""
    path = tmp_path / "steps.csv"
    rows = [("s", batch, 100 + 5000 / batch) for batch in (16, 32, 64, 128)]
    path.write_text("g,batch_size,steps\n" + "".join(f"{g},{b},{y}\n" for g, b, y in rows))
    with path.open("a") as file:
        file.writelines(f"l,{batch},{200 + 9000 / batch}\n" for batch in (32, 64, 128, 256))
    found = run.json("fit", path, "--group", "g")
    assert found["convention"] == {"reference": 32, "overhead": 0.2}
    assert [row["critical_batch_size"] for row in found["groups"]] == pytest.approx([0.2 * 50 + 38.4, 0.2 * 45 + 38.4])
    apart = tmp_path / "apart.csv"
    apart.write_text(path.read_text().replace("l,32", "l,33").replace("l,64", "l,65").replace("l,128", "l,129"))
    assert run.json("fit", apart, "--group", "g")["convention"]["reference"] is None
    assert "20% more data than at each group's smallest B" in run("fit", apart, "--group", "g")
