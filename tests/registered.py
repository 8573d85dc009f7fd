"""Objects of the classes that have a name in a registry, so that a test of all of them needs no list of its own."""

from sgdtheory.algorithms import parameters


def instance(kind):
    """Return the class with the first values of its sliders, as the explorer shows it."""
    if hasattr(kind, "written"):  # Stages, which are set by a text.
        return kind((0.0, 0.5), (1.0, 0.3))
    fields = parameters(kind)
    return kind(**{name: type(said.slider.step)(said.slider.first) for name, said in fields.items() if said.slider})
