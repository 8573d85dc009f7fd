"""The examples in docstrings of the public face run and print what they say."""

import doctest
import importlib
import inspect

import pytest

import sgdtheory as st
from tests.marks import slow

DOORS = "sgdtheory", "sgdtheory.fits", "sgdtheory.simulation", "sgdtheory.plotting"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public(doors=DOORS):
    """{name: object} of the functions and classes behind the doors."""
    found = {}
    for door in map(importlib.import_module, doors):
        for name in door.__all__:
            entry = getattr(door, name)
            if inspect.isfunction(entry) or inspect.isclass(entry):
                found.setdefault(f"{door.__name__}.{name}", entry)
    return found


PUBLIC = public()


EVERY = PUBLIC | public(("sgdtheory.training", "sgdtheory.sweep", "sgdtheory.bounds"))
FIRST = {entry: name for name, entry in reversed(EVERY.items())}  # the first door of what stands behind several
RUN = {name: entry for name, entry in EVERY.items() if FIRST[entry] == name}
ELSEWHERE = ["sgdtheory.sweep.cluster_executor"]  # needs a cluster


def examples(name):
    return doctest.DocTestFinder(exclude_empty=True).find(RUN[name], name, globs={})


def run_example(example):
    printed = []
    failed, _ = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=printed.append)
    assert not failed, "".join(printed)


# These take seconds for what a page of the guides, another docstring or the function's own tests run as well.
LONG = (
    "training.Custom",
    "NonlinearMethod",
    "fit_loss_curves",
    "plotting.critical_batch_size",
    "plotting.critical_batch_sizes",
    "plotting.optimal_schedule",
    "plotting.pareto",
    "plotting.risk_against_batch_size",
    "plotting.scaled_steps",
    "plotting.size_dependence",
)


@pytest.mark.parametrize("name", [slow(name) if name.removeprefix("sgdtheory.") in LONG else name for name in RUN])
def test_examples_run(name):
    for example in examples(name):
        run_example(example)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUN if name not in ELSEWHERE and "+SKIP" in str(RUN[name].__doc__)])
def test_examples_that_train_networks_run(name):
    for example in examples(name):
        for line in example.examples:
            line.options.pop(doctest.SKIP, None)
        run_example(example)


def test_every_public_function_and_what_a_user_constructs_has_an_example():
    functions = [entry for entry in PUBLIC.values() if inspect.isfunction(entry)]
    without = [
        each.__name__
        for each in (*functions, st.PowerLaw, st.LeastSquares, st.Setting)
        if ">>> " not in (inspect.getdoc(each) or "")
    ]
    assert without == []
