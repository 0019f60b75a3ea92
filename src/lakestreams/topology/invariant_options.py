"""What the options of invariants take, by the types that they are declared with: a run would fail by anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from lakestreams.errors import InvalidOption
from lakestreams.errors.phrases import OptionValue, Phrase
from lakestreams.topology.durations import to_ms
from lakestreams.topology.kinds import Partitioner

_PARTITIONERS: Final = get_args(Partitioner)
# In words, and whether a value is such; users without a type checker give anything.
_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "int": ("a whole number from 0", lambda value: type(value) is int and value >= 0),
    "float": ("a share between 0 and 1", lambda value: type(value) in (int, float) and 0 <= value <= 1),
    "Partitioner": (f"one of {', '.join(_PARTITIONERS)}", lambda value: value in _PARTITIONERS),
    "tuple[str, ...]": (
        "a list of columns",
        lambda value: isinstance(value, tuple | list) and all(isinstance(one, str) for one in value),
    ),
}


def require_fit(kind: str, name: str, value: Any, where: str) -> None:
    """Refuses a value that an option of this type does not take.

    Args:
        kind: the type as it is declared.
        name: the option.
        value: its value.
        where: the invariant.

    Raises:
        InvalidDuration: for a duration that is none.
        InvalidOption: for anything else.
    """
    if kind == "Duration":
        to_ms(value, name)
    elif kind != "InvariantAction":  # which every invariant looks at itself; any other type has a line above
        words, fits = _KINDS[kind]
        if not fits(value):
            raise InvalidOption(Phrase(OptionValue(name, value), f" is not {words}"), hint=f"give {words}", where=where)


__all__ = ["require_fit"]
