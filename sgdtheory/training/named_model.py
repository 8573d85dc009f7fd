"""A network of your own that is known by its name alone: what a file or a flag says of it, before it is imported."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sgdtheory.training.custom_model import Custom
from sgdtheory.training.data import Data, Kind
from sgdtheory.training.entry_point import module_file, split_entry_point
from sgdtheory.training.network import Network
from sgdtheory.training.parametrization import Parametrization


@dataclass(frozen=True)
class NamedModel:
    """A `Custom` model by its entry point. Training imports it; reading a run, a store or a table does not.

    Attributes:
        entry_point: "module:name".
        found_in: the file of a run that names it. A file is data, so that this model is never imported: the caller has
            to name it too. None: the caller named it.

    Raises:
        ValueError: the entry point is not of the form "module:name".
    """

    entry_point: str
    found_in: str | None = field(default=None, compare=False)

    sees: ClassVar[tuple[Kind, ...] | None] = None

    def __post_init__(self) -> None:
        """Check the entry point."""
        split_entry_point(self.entry_point)

    @classmethod
    def of(cls, place: Any) -> "NamedModel | Custom":
        """The model that a flat field holds: a text names one, and a model is itself."""
        return place if isinstance(place, Custom | NamedModel) else cls(place)

    @property
    def place(self) -> "NamedModel":
        """Itself: a text would forget who named it."""
        return self

    @property
    def source(self) -> str | None:
        """Hash of the source of its module as it is now; None: unknown."""
        return Custom.source_of(self.entry_point)

    def imported(self, outside: Any = None) -> Custom:
        """The model.

        Args:
            outside: folder of runs, in which no module is imported.

        Raises:
            ValueError: a file names it and the caller does not, or it cannot be imported.
        """
        if self.found_in is None:
            return Custom.from_place(self.entry_point, outside)
        file = module_file(self.entry_point)
        where = f"({file})" if file else "(which is not found here)"
        raise ValueError(
            f"{self.found_in} names the model {self.entry_point} {where}, and training would run its code: if the code "
            f"is yours, name it too, --entry-point {self.entry_point} or entry_point={self.entry_point!r}"
        )

    def check_widths(self, width: int, base_width: int) -> None:
        """`init` of the model says which widths go."""

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """The network for some data at a width."""
        return self.imported().network(data, width, base_width, table)
