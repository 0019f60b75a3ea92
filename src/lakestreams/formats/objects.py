"""Records of one JSON object each: the columns that a schema declares, or what is wrong with the record.

This is the exact way: one record after the other, in plain Python. What it says is what holds; `blocks` reads faster what
both surely read alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from lakestreams.formats.base import Field
from lakestreams.formats.exact import Misfit, exact_of, has_strings, lost, lost_number, misfit, unfit
from lakestreams.formats.jsontext import WHITE, entries, parsed
from lakestreams.formats.kinds import Leaf, Struct
from lakestreams.formats.numbers import AsDouble
from lakestreams.formats.places import Path, at
from lakestreams.formats.shapes import Unfit, shape_of
from lakestreams.formats.writers import PREFIX

Row: TypeAlias = "dict[str, Any] | None"
Judge: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], "tuple[Row, str | None]"]


class Located(NamedTuple):
    """Where a record's row is.

    Attributes:
        row: what stands there.
        marked_by: what stands where the record says that the row counts; None where it always does.
        words: which texts say so.
    """

    row: Any
    marked_by: Any = None
    words: tuple[str, ...] = ()


Open: TypeAlias = Callable[[Any], "str | None"]
Locate: TypeAlias = Callable[[dict[str, Any]], Located]

NOT_UTF8: Final = "not valid UTF-8"
_PREFIXED: Final = "begins with a schema registry's prefix (Confluent's wire format: 0x00 and a 4-byte id)"
_PREFIXED_JSON: Final = f"{_PREFIXED}; RegistryJson reads a JSON object behind one"
_PREFIXED_OTHER: Final = (
    f"{_PREFIXED}, and what follows is no JSON object; RegistryAvro reads Avro, RegistryProtobuf Protobuf"
)
_MARKED: Final = "begins with a byte-order mark; write UTF-8 without one"
_NO_OBJECT: Final = "not a JSON object"
_HALF_OF_PAIR: Final = "half of a surrogate pair, which is no character"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Escape by escape from the beginning, since whether a backslash begins one depends on all that stand before it.
_CHARACTERS: Final = re.compile(rf"(?:[^\\]++|{_HIGH}{_LOW}|\\(?!u[dD][89a-fA-F]).)*+\Z", re.DOTALL)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_ @.:/#-]+\Z")
_STRING: Final = Leaf("string", "string")


class Objects:
    """Reads records by a declared schema.

    Args:
        fields: the columns.
        paths: of each column the names that lead to it in the row.
        root: the whole object, as far as it is read.
        judge: from the object as it stands and in the shape of `root` to the row, or to what is wrong.
        broken: the message for a text that begins as an object and is none.
        unwrap: puts what a text of the object says in the text's place, and gives the text; None: there is none to open.
        locate: from the object, with anything in the place of its values, to where the row is for sure, if it is an object.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        paths: Sequence[Path],
        root: Struct,
        judge: Judge,
        broken: str,
        locate: Locate,
        unwrap: Open = lambda _: None,
    ) -> None:
        self.fields, self.paths, self.locate, self._unwrap = fields, paths, locate, unwrap
        self._root, self._shape, self._judge, self._unfit = root, shape_of(root), judge, broken
        kinds = [(field.name, field.member, path) for field, path in zip(fields, paths, strict=True)]
        self._strings = [(name, member.kind, path) for name, member, path in kinds if has_strings(member.kind)]
        exact = [(name, exact_of(member.kind), member) for name, member, _ in kinds]
        self._exact = [(name, of, member) for name, of, member in exact if of is not None or member.required]

    def read(self, raw: bytes) -> tuple[Row, str | None]:
        """The columns, None for a null, or an error."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None, _prefixed(raw) or NOT_UTF8
        try:
            found = parsed(text)
            inner = self._unwrap(found)
            shaped = self._shape(found)
        except ValueError:
            return None, _broken(raw, text, self._unfit)
        except Unfit:
            return None, self._unfit_at(found)
        row, error = self._judge(found, shaped)
        if error is not None:
            return None, error
        own = text if inner is None else inner
        if self._strings and not _are_characters(own):
            return None, _HALF_OF_PAIR
        return (None, None) if row is None else self._exactly(own, row)

    def _exactly(self, text: str, row: dict[str, Any]) -> tuple[Row, str | None]:
        values = {field.name: at(row, path) for field, path in zip(self.fields, self.paths, strict=True)}
        for name, kind, path in self._strings:
            x = values[name]
            if x is not None and lost(kind, x):
                written = _written(text, path[-1], x) if kind == _STRING else None
                if written is None:
                    return None, lost_number(name, kind, x)
                values[name] = written
        try:
            for name, exact, member in self._exact:
                x = values[name]
                if x is None and member.required:
                    raise Misfit
                if x is not None and exact is not None:
                    values[name] = exact(x)
        except Misfit:
            return None, self._misfit(row)
        return values, None

    def _unfit_at(self, json_value: Any) -> str:
        """The message of the first field that is of another sort."""
        said = unfit(self._root, json_value, "") if isinstance(json_value, dict) else _NO_OBJECT
        return self._unfit if said is None else said.removeprefix(".")

    def _misfit(self, row: dict[str, Any]) -> str | None:
        """The message of the first column that does not fit."""
        pairs = zip(self.fields, self.paths, strict=True)
        said = (misfit(field.member, at(row, path), field.name) for field, path in pairs)
        return next((one for one in said if one is not None), self._unfit)


def names(row: dict[str, Any]) -> list[str]:
    """The names in an object, as often as they come."""
    return [name for name, _ in entries(row)]


def framed(raw: bytes) -> bool:
    """Whether there is a schema registry's prefix."""
    return len(raw) > PREFIX and raw[0] == 0


def _are_characters(text: str) -> bool:
    """Whether no half of a surrogate pair stands in a JSON text, as an escape or as it is, as in a text that was one of JSON."""
    if "\\u" in text and not _CHARACTERS.match(text):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _prefixed(raw: bytes) -> str | None:
    if not framed(raw):
        return None
    behind = raw[PREFIX : PREFIX + 100].lstrip(WHITE.encode())
    return _PREFIXED_JSON if behind.startswith(b"{") else _PREFIXED_OTHER


def _broken(raw: bytes, text: str, unfit: str) -> str:
    if framed(raw):
        return _prefixed(raw) or unfit
    if text.startswith("\ufeff"):
        return _MARKED
    return unfit if text.lstrip(WHITE).startswith("{") else _NO_OBJECT


def _written(text: str, name: str, x: AsDouble) -> str | None:
    """The number in a column of strings, if every field of its name says the same one."""
    if x.written is None or not _PLAIN_NAME.match(name):
        return None
    pattern = rf'"{re.escape(name)}"[{WHITE}]*:[{WHITE}]*(-?[0-9][-+.0-9eE]*|.)'
    return x.written if {*re.findall(pattern, text)} == {x.written} else None


__all__ = ["NOT_UTF8", "Located", "Objects", "Row", "framed", "names"]
