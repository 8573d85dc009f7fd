"""Results that show themselves: a short table in print and in a notebook, and the figure that there is of them."""

from typing import Any, ClassVar

from sgdtheory._common.figures import figure_function
from sgdtheory._common.sheets import Sheet, as_html, as_text


class Shown:
    """A result: derive from it, and say what its table holds. `repr` stays that of the dataclass.

    Attributes:
        figure: the function of `st.plot` that draws it; empty: none.
    """

    figure: ClassVar[str] = ""

    def sheet(self) -> Sheet:
        """Its table: numbers with their intervals, units and conventions, and remarks."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The table as text."""
        return as_text(self.sheet())

    def _repr_html_(self) -> str:
        """The table, as a notebook shows it."""
        return as_html(self.sheet())

    def plot(self, **options: Any) -> Any:
        """Its figure, of matplotlib; `options` are those of the function of `st.plot` that draws it.

        Raises:
            ValueError: there is none of this result.
        """
        if not self.figure:
            raise ValueError(f"plot must be called on a result that has a figure; {type(self).__name__} has none")
        return figure_function(self.figure)(*self._drawn(), **options)

    def _drawn(self) -> tuple[Any, ...]:
        """Return the first arguments of the function that draws the figure."""
        return (self,)
