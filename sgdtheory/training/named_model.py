"""Custom models that are known only by their entry point, as a file or a flag names them, before they are imported."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sgdtheory.training.custom_model import Custom
from sgdtheory.training.data import Data, Kind
from sgdtheory.training.entry_point import module_file, split_entry_point
from sgdtheory.training.network import Network
from sgdtheory.training.parametrization import Parametrization


@dataclass(frozen=True)
class NamedModel:
    """A `Custom` model that is named by its entry point: training imports it, reading a run, store or table does not.

    Attributes:
        entry_point: "module:name".
        found_in: file of a run that names the model. Files are data, so that such a model is never imported unless the
            caller names it too. None: the caller named it.

    Raises:
        ValueError: if the entry point is not of the form "module:name".
    """

    entry_point: str
    found_in: str | None = field(default=None, compare=False)

    sees: ClassVar[tuple[Kind, ...] | None] = None

    def __post_init__(self) -> None:
        """Check the entry point."""
        split_entry_point(self.entry_point)

    @classmethod
    def of(cls, place: Any) -> "NamedModel | Custom":
        """Return the model that a flat field holds: a text is an entry point, a model is returned unchanged."""
        return place if isinstance(place, Custom | NamedModel) else cls(place)

    @property
    def place(self) -> "NamedModel":
        """The model itself, as flat fields hold it: a text would not record who named it."""
        return self

    @property
    def source(self) -> str | None:
        """Hash of the present source of the entry point's module; None if unknown."""
        return Custom.source_of(self.entry_point)

    def imported(self, outside: Any = None) -> Custom:
        """Import the model.

        Args:
            outside: folder of runs, from which no module is imported.

        Raises:
            ValueError: if a file names the model and the caller does not, or it cannot be imported.
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
        """Accept any width: the model's `init` itself may refuse one."""

    def network(self, data: Data, width: int, base_width: int, table: Parametrization) -> Network:
        """Import the model and build its network for these data at a width."""
        return self.imported().network(data, width, base_width, table)
