"""Where in a JSON object the columns of a format stand: under their own names, or where the user says."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field
from lakestreams.formats.kinds import Member, Struct
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

Path: TypeAlias = "tuple[str, ...]"
Fields: TypeAlias = "Mapping[str, str | Sequence[str]]"
RESERVED_PREFIX = "_ls_"
_Tree: TypeAlias = "dict[str, Field | _Tree]"
_HINT = 'such as fields={"user_id": "user-id"}, or a list for a field inside an object: {"city": ["address", "city"]}'


@dataclass(frozen=True)
class Places:
    """The columns of a format, each with the field of the JSON object that it is read from and written to.

    Attributes:
        fields: the columns.
        paths: of each column the name of its field; with several names the field inside objects.
    """

    fields: tuple[Field, ...]
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, fields: tuple[Field, ...], named_paths: Sequence[tuple[str, Path]]) -> Places:
        """The places of columns, those that are not named under their own names.

        Raises:
            InvalidFormat: if a name is no column, or two columns would be read from one field.
        """
        named = dict(named_paths)
        columns = [field.name for field in fields]
        for name in named:
            if name not in columns:
                near = difflib.get_close_matches(name, columns, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                msg = f"fields names {name!r}, which the schema does not have"
                raise InvalidFormat(msg, hint=f"{hint}columns: {', '.join(columns)}")
        paths = tuple(named.get(name, (name,)) for name in columns)
        for place, path in enumerate(paths):
            if path[0].lower().startswith(RESERVED_PREFIX):
                msg = f"field {_shown(path)} of column {columns[place]}: names that begin with {RESERVED_PREFIX} are taken"
                raise InvalidFormat(msg, hint="rename the field where it is written")
            for other in range(place):
                shorter = min(len(path), len(paths[other]))
                if path[:shorter] == paths[other][:shorter]:
                    msg = f"columns {columns[other]} and {columns[place]} are both read from field {_shown(path[:shorter])}"
                    raise InvalidFormat(msg, hint="give each column a field of its own")
        return cls(fields, paths)

    @property
    def renamed(self) -> bool:
        """Whether any column has another place than its own name."""
        return any(path != (field.name,) for field, path in zip(self.fields, self.paths, strict=True))

    @property
    def shape(self) -> Struct:
        """What is read of the JSON object."""
        return _shape(self._tree())

    def of_row(self, row: dict[str, Any]) -> list[Any]:
        """The columns of an object that was read in this shape."""
        return [at(row, path) for path in self.paths]

    def written(self, value: Column) -> Column:
        """A struct of the columns as the struct of the JSON object."""
        return F.when(value.isNotNull(), _object(value, self._tree())) if self.renamed else value

    def put(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by column as values by field; other names stay as they are."""
        paths = {field.name: path for field, path in zip(self.fields, self.paths, strict=True)}
        found: dict[str, Any] = {}
        for name, value in values.items():
            *outer, last = paths.get(name, (name,))
            inner = found
            for one in outer:
                inner = inner.setdefault(one, {})
            inner[last] = value
        return found

    def describe(self) -> str:
        """The columns as text, equal for equal places however they are written."""
        return ", ".join(
            f"{field.name} {field.member.declared}" + ("" if path == (field.name,) else f" from {_shown(path)}")
            for field, path in zip(self.fields, self.paths, strict=True)
        )

    def _tree(self) -> _Tree:
        """The object's members by name, in the order of the columns."""
        tree: _Tree = {}
        for field, path in zip(self.fields, self.paths, strict=True):
            inner = tree
            for one in path[:-1]:
                found = inner.setdefault(one, {})
                assert isinstance(found, dict)  # noqa: S101 - `of` lets no field be inside another
                inner = found
            inner[path[-1]] = field
        return tree


def at(row: dict[str, Any], path: Path) -> Any:
    """What lies at the end of a path, None where it does not go on."""
    found: Any = row
    for name in path:
        if found is None:
            return None
        found = found[name]
    return found


def paths_of(value: object) -> tuple[tuple[str, Path], ...]:
    """The argument `fields` as pairs of column and path, sorted; a column under its own name is left out.

    Raises:
        InvalidFormat: if it is no mapping of columns to names or lists of names.
    """
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise InvalidFormat(f"fields={value!r} is no mapping of columns to field names", hint=_HINT)
    return tuple(sorted((column, path) for column, path in _paths(value) if path != (column,)))


def _paths(paths: Mapping[Any, Any]) -> Iterator[tuple[str, Path]]:
    for column, field in paths.items():
        path = (field,) if isinstance(field, str) else tuple(field) if isinstance(field, list | tuple) else ()
        if not isinstance(column, str) or not path or not all(isinstance(one, str) for one in path):
            raise InvalidFormat(f"fields: {column!r}: {field!r} is no field name", hint=_HINT)
        yield column, path


def _shape(tree: _Tree) -> Struct:
    return Struct(
        tuple(
            Member(name, name, _shape(inner) if isinstance(inner, dict) else inner.member.kind)
            for name, inner in tree.items()
        )
    )


def _object(value: Column, tree: _Tree) -> Column:
    members = [
        (_object(value, inner) if isinstance(inner, dict) else value[inner.name]).alias(name)
        for name, inner in tree.items()
    ]
    return F.struct(*members)


def _shown(path: Path) -> str:
    return json.dumps(path[0] if len(path) == 1 else list(path), ensure_ascii=False)


__all__ = ["RESERVED_PREFIX", "Fields", "Path", "Places", "at", "paths_of"]
