"""Sweeps from TOML: which runs a file describes, and what is said where it describes none."""

import itertools

import pytest

from sgdtheory.sweep import read_grid
from sgdtheory.training import preset
from tests.runs import run_of


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "grid.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_grid(path)

    return read_text


def test_a_grid_is_the_product_of_its_lists_the_last_the_quickest(read):
    found = read("[fixed]\nmax_steps = 7\n[grid]\nwidth = [64, 32]\nlearning_rate = [0.1, 0.2, 0.3]\nseed = [1, 0]")
    rows = itertools.product((64, 32), (0.1, 0.2, 0.3), (1, 0))
    assert found == [run_of(max_steps=7, width=w, learning_rate=rate, seed=seed) for w, rate, seed in rows]


def test_fields_of_a_case_change_together(read):
    found = read("""
        [grid]
        seed = [0, 1]
        [[cases.batch]]
        batch_size = 4
        max_steps = 100
        [[cases.batch]]
        batch_size = 16
        max_steps = 30
        [[cases.size]]
        width = 32
        [[cases.size]]
        width = 64
    """)
    rows = itertools.product((0, 1), ((4, 100), (16, 30)), (32, 64))
    assert found == [run_of(seed=s, batch_size=b, max_steps=m, width=w) for s, (b, m), w in rows]


def test_optimizers_are_cases_with_numbers_of_their_own(read):
    cases = {"sgd": "momentum = 0.5", "adam": "beta2 = 0.9", "sign": "momentum = 0.9", "muon": "update_rms = 0.1"}
    found = read("\n".join(f'[[cases.o]]\noptimizer = "{name}"\n{number}' for name, number in cases.items()))
    sgd, adam, sign, muon = found
    assert (sgd, sign) == (run_of(optimizer="sgd", momentum=0.5), run_of(optimizer="sign", momentum=0.9))
    assert (adam, muon) == (run_of(beta2=0.9), run_of(optimizer="muon", update_rms=0.1))


def test_any_table_changes_a_presets_fields(read):
    found = read("[fixed]\npreset = 'bytes'\ndepth = 3\n[grid]\nwidth = [64, 128]")
    assert found == [preset("bytes", depth=3, width=64), preset("bytes", depth=3, width=128)]


def test_averages_are_a_list_of_lists(read):
    assert [config.averages for config in read("[grid]\naverages = [[], [0.5, 0.9]]")] == [(), (0.5, 0.9)]
    assert read("[fixed]\naverages = [0.5]")[0].averages == (0.5,)


def test_an_empty_file_is_the_default_run(read):
    assert read("") == [run_of()]


def test_runs_that_occur_twice_run_once(read):
    found = read("[grid]\nlearning_rate = [0.1, 0.2, 0.1]\naverages = [[0.9, 0.5], [0.5, 0.9]]")
    assert found == [run_of(learning_rate=rate, averages=(0.5, 0.9)) for rate in (0.1, 0.2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grid", "is not TOML"),
        (b"width = '\xff'", "is not TOML"),
        ("[gird]\nwidth = [1]", r"a table must be one of fixed, grid, cases, got gird \(did you mean grid\?\)"),
        ("grid = 3", r"grid must be a table, got 3; write \[grid\] above its fields"),
        ("[grid]\nwitdh = [1]", r"a field of grid.witdh must be .*, got witdh \(did you mean width\?\)"),
        ("[fixed]\nbatchsize = 1", r"a field of fixed must be .*, got batchsize \(did you mean batch_size\?\)"),
        ("[[cases.a]]\nsede = 1", r"a field of cases.a must be .*, got sede \(did you mean seed\?\)"),
        ("[fixed]\npreset = 'byte'", r"fixed.preset must be .*, got byte \(did you mean bytes\?\)"),
        ("[grid]\nwidth = []", "grid.width is empty: give it at least one value, or leave it out"),
        ("[grid]\nwidth = 64", "grid.width must be a list of values, got 64; what does not vary goes to fixed"),
        ("[grid]\nwidth = [1]\n[[cases.a]]\nwidth = 2", "width is given by grid.width and by cases.a: keep one"),
        ("[fixed]\nwidth = 8\n[grid]\nwidth = [64]", "width is given by fixed and by grid.width: keep one"),
        ("[[cases.a]]\nseed = 2\n[[cases.a]]\nwidth = 2", "cases.a must have the same fields in each of its tables"),
        ("[grid]\naverages = [[0.5], 0.9]", r"grid.averages must be a list of values, got \[\[0.5\], 0.9\]"),
        ("[cases]\na = [{seed = 1}, {}]", r"cases.a must be tables with fields: write \[\[cases.a\]\] above each"),
        ("[cases]\na = 3", r"cases.a must be tables with fields: write \[\[cases.a\]\] above each"),
        ("[fixed]\nwidth = '32'", "width must be a number or an array of numbers, got '32'; write it without quotes$"),
        ("[grid]\nseed = [true]", r"seed must be a number .*, got True \(with seed = True\)"),
        ("[fixed]\naverages = 0.9\n[grid]\nwidth = [0]", r"width must be .* at least 1, got 0 \(with width = 0\)"),
        (
            "[grid]\nbatch_size = [8, 9]\nmicro_batch = [4]",
            r"micro_batch must divide .* \(with batch_size = 9, micro_batch = 4\)",
        ),
        ("[grid]\nseed = [[1]]", r"seed must be a single number, .* \(with seed = \[1\]\)"),
        (
            "[grid]\nmodel = [['mlp']]",
            r"model must be one of mlp, residual, conv, transformer, recurrent, custom, got \['mlp'\] .*\(with model",
        ),
    ],
)
def test_what_is_no_grid(read, text, message):
    with pytest.raises(ValueError, match=rf"grid.toml:? .*{message}") as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*none.toml: No such file"):
        read_grid(tmp_path / "none.toml")
    with pytest.raises(ValueError, match=r"cannot read .*: Is a directory"):
        read_grid(tmp_path)
