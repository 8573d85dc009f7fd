"""How panels look: their order and size, lines and points, and what has to wait."""

from sgdtheory.explore import appearance
from sgdtheory.explore.registry import JOBS, SPECS
from sgdtheory.explore.spec import HEIGHT, INK, Glyph
from sgdtheory.explore.state import State

PANELS = {  # panel → place, height, factor below the least value
    **{"risk": (0, 280, 30.0), "samples": (1, 280, 30.0), "growth": (2, 280, 2.0), "path": (3, 220, 3.0)},
    **{"path_rates": (4, 70, 30.0), "path_batches": (5, 105, 30.0), "rate": (6, 280, 30.0)},
}
LOOKS = {  # panel and glyph → kind, dash, relative width, and whether axes show it and a pointer its numbers
    "risk": {
        "risk": ("line", "solid", 1.0, True, True),
        "bias": ("line", "dashed", 0.6, False, False),
        "variance": ("line", "dotdash", 0.6, False, False),
        "least": ("star", "solid", 1.0, False, False),
        "missed": ("level", "dotted", 0.7, False, False),
    },
    "samples": {
        "needed": ("line", "solid", 1.0, True, True),
        "linear": ("level", "dashed", 0.7, False, False),
        "allowed": ("level", "dotted", 0.7, False, False),
        "critical": ("star", "solid", 1.0, False, False),
    },
    "growth": {
        "critical": ("line", "solid", 0.5, True, True),
        "points": ("star", "solid", 1.0, False, False),
        "theory": ("line", "dashed", 0.7, False, False),
    },
    "path": {
        "average": ("line", "solid", 1.0, True, True),
        "iterate": ("line", "solid", 0.4, True, False),
        "simulated": ("circle", "solid", 1.0, True, False),
        "errors": ("bars", "solid", 0.6, False, False),
    },
    "path_rates": {"path_rates": ("line", "solid", 1.0, True, False)},
    "path_batches": {"path_batches": ("line", "solid", 1.0, True, False)},
    "rate": {
        "risk": ("line", "solid", 1.0, True, True),
        "bias": ("line", "dashed", 0.6, False, False),
        "variance": ("line", "dotdash", 0.6, False, False),
        "here": ("circle", "solid", 1.0, False, False),
        "edge": ("upright", "dotted", 0.7, False, False),
    },
}


def test_panels_and_what_they_draw():
    assert {name: (spec.place, spec.height, spec.below) for name, spec in SPECS.items()} == PANELS
    found = {
        name: {each.name: (each.kind, each.dash, each.width, each.measured, each.hover) for each in spec.glyphs}
        for name, spec in SPECS.items()
    }
    assert found == LOOKS
    sizes = {each.name: each.size for spec in SPECS.values() for each in spec.glyphs if each.kind in ("star", "circle")}
    assert sizes == {"least": 16, "critical": 16, "points": 16, "simulated": 6, "here": 9}
    assert [name for name, spec in SPECS.items() if spec.capped] == ["rate"]
    assert [name for name, spec in SPECS.items() if spec.linear] == ["path_rates", "path_batches"]
    assert (SPECS["samples"].y_range, HEIGHT) == ((0.8, 30.0), 280)
    assert [*SPECS["samples"].y_ticks] == [1, 1.5, 2, 3, 5, 10, 20]


def test_what_is_computed_first_and_by_whom():
    order = sorted(JOBS.values(), key=lambda job: job.turn)
    assert [job.name for job in order] == ["run", "rates", "tuned", "critical", "growth", "simulated"]
    lanes = {job.name: [job.lane(State(first=text), 0) for text in ("sgd", "last")] for job in order}
    assert lanes == {
        **{"run": ["quick", "quick"], "rates": ["quick", "long"], "tuned": ["quick", "long"]},
        **dict.fromkeys(("critical", "growth", "simulated"), ["long", "long"]),
    }
    assert [job.name for job in order if not job.patient] == ["growth"]
    assert [job.name for job in order if not job.needs_risk] == ["simulated"]
    law = ("capacity", "source", "noise_variance", "precondition", "num_features", "num_samples")
    assert JOBS["tuned"].depends_on == law
    assert JOBS["run"].depends_on == (*law, "batch_size", "learning_rate", "rate_factor")
    assert JOBS["rates"].depends_on == (*law, "batch_size")
    assert JOBS["critical"].depends_on == JOBS["growth"].depends_on == (*law, "overhead")


def test_what_belongs_to_no_algorithm_is_drawn_with_the_first():
    both, own, ink = (Glyph("a", "line", "b", slots=slots) for slots in ((0, 1), (0,), (INK,)))
    assert [[each.place(slot) for slot in (0, 1)] for each in (both, own, ink)] == [[0, 1], [0, None], [INK, None]]


def test_large_letters_have_thick_lines():
    assert appearance.LINE_WIDTHS == {"normal": 2.0, "large": 3.5}
    default = State()
    assert (default.batch_size, default.overhead, default.num_samples) == (32, 0.2, 1e6)
