"""Values of single types as columns of Arrow: what the bytes say, exactly, or a failed record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakestreams.formats.avro.cursor import Cursor, Numbers
from lakestreams.formats.avro.schema import ZONED, Fixed, Logical, Primitive
from lakestreams.formats.cells import judged
from lakestreams.formats.exact import shown
from lakestreams.formats.kinds import Leaf
from lakestreams.formats.leaves import described

_DAY_US: Final = 86_400_000_000
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999, as in every format
_MICROS: Final = {"millis": 1000, "micros": 1}
_MOMENT: Final = Leaf("timestamp", "timestamp")
_UUID_DASHES: Final = (8, 12, 16, 20)


class Value:
    """Reads the values of one primitive or fixed type as those of another one that they may be promoted to.

    Args:
        written: as the bytes have it.
        read: as the column has it.
        path: where it stands, for messages.
    """

    def __init__(self, written: Primitive | Fixed, read: Primitive | Fixed, path: str) -> None:
        self._kind = "fixed" if isinstance(written, Fixed) else written.kind
        self._size = written.size if isinstance(written, Fixed) else 0
        self._target = "fixed" if isinstance(read, Fixed) else read.kind
        self._logical, self._path = read.logical, path
        self.least = {"null": 0, "float": 4, "double": 8, "fixed": self._size}.get(self._kind, 1)
        self._reader: Callable[[Cursor, Numbers], pa.Array] = {
            "null": self._nulls,
            "boolean": self._booleans,
            "int": self._integers,
            "long": self._integers,
            "float": self._floats,
            "double": self._floats,
        }.get(self._kind, self._bytes)

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        """A value of each record."""
        return self._reader(cursor, rows)

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        """Passes over a value of each record."""
        if self._kind in ("int", "long"):
            cursor.number(rows, self._path)
        elif self._kind in ("bytes", "string"):
            cursor.skip(rows, cursor.number(rows, self._path), self._path, self._kind)
        else:
            cursor.skip(rows, self.least, self._path, self._kind)

    def _nulls(self, _cursor: Cursor, rows: Numbers) -> pa.Array:
        return pa.nulls(len(rows))

    def _booleans(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        found = cursor.fixed(rows, 1, self._path, "a boolean")[:, 0]
        if (found > 1).any():
            cursor.fail(rows[found > 1], f"{self._path}: a boolean that is neither 0 nor 1")
        return pa.array(found == 1)

    def _floats(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        size = self.least
        found = np.ascontiguousarray(cursor.fixed(rows, size, self._path, f"a {self._kind}")).view(f"<f{size}")[:, 0]
        return pa.array(found.astype(np.float64 if self._target == "double" else np.float32))

    def _integers(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        found = cursor.number(rows, self._path)
        if self._kind == "int":
            found = self._within(cursor, rows, found, -(2**31), 2**31 - 1, "int")
        if self._target in ("float", "double"):
            return pa.array(found.astype(np.float64 if self._target == "double" else np.float32))
        name = self._logical.name if self._logical else ""
        unit = name.rpartition("-")[2]
        if name == "date":
            days = self._within(
                cursor, rows, found, _FIRST_US // _DAY_US, _LAST_US // _DAY_US, "date of a year 1 to 9999"
            )
            return pa.array(days.astype(np.int32)).view(pa.date32())
        if "timestamp" in name and unit in _MICROS:
            size = _MICROS[unit]
            times = self._within(
                cursor, rows, found, _FIRST_US // size, _LAST_US // size, f"{name} of a year 1 to 9999"
            )
            return pa.array(times * size).view(pa.timestamp("us", None if name.startswith("local") else "UTC"))
        return pa.array(found.astype(np.int32) if self._target == "int" else found)

    def _within(self, cursor: Cursor, rows: Numbers, numbers: Numbers, low: int, high: int, what: str) -> Numbers:
        wrong = (numbers < low) | (numbers > high)
        if wrong.any():
            cursor.fail(rows[wrong], [f"{self._path}: {number} is no {what}" for number in numbers[wrong].tolist()])
            return np.where(wrong, 0, numbers)
        return numbers

    def _bytes(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        if self._logical == Logical("uuid") and self._kind == "fixed":
            return self._uuids(cursor.fixed(rows, self._size, self._path, f"fixed({self._size})"))
        if self._kind == "fixed":
            offsets, data = cursor.pieces(rows, self._size, self._path, f"fixed({self._size})")
        else:
            offsets, data = cursor.texts(rows, self._path, self._kind)
        if self._target == "string":
            found = texts(cursor, rows, offsets, data, self._path)
            return self._moments(cursor, rows, found) if self._logical == Logical(ZONED) else found
        if self._logical is not None and self._logical.name == "decimal":
            return self._decimals(cursor, rows, offsets, data, self._logical)
        return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def _uuids(self, matrix: npt.NDArray[np.uint8]) -> pa.Array:
        digits = (bytes(one).hex() for one in matrix)
        cuts = [(start, end) for start, end in zip((0, *_UUID_DASHES), (*_UUID_DASHES, 32), strict=True)]
        return pa.array(["-".join(one[start:end] for start, end in cuts) for one in digits], pa.string())

    def _moments(self, cursor: Cursor, rows: Numbers, numbers: pa.Array) -> pa.Array:
        """Texts that say moments, by the rules of JSON."""
        column, sure = judged(_MOMENT, numbers)
        wrong = ~sure & ~cursor.failed[rows]
        if wrong.any():
            said = [f'"{shown(one)}" is no {described(_MOMENT)}' for one in numbers.filter(pa.array(wrong)).to_pylist()]
            cursor.fail(rows[wrong], [f"{self._path}: {one}" for one in said])
        return column.fill_null(0) if column.null_count else column

    def _decimals(
        self,
        cursor: Cursor,
        rows: Numbers,
        offsets: npt.NDArray[np.int32],
        data: npt.NDArray[np.uint8],
        logical: Logical,
    ) -> pa.Array:
        cursor.fail(rows[np.diff(offsets) == 0], f"{self._path}: 0 bytes are no {logical}")  # as Java reads them
        whole, most = data.tobytes(), 10**logical.precision
        found = [int.from_bytes(whole[start:end], "big", signed=True) for start, end in pairwise(offsets.tolist())]
        wrong = [place for place, number in enumerate(found) if not -most < number < most]
        if wrong:
            said = [f"{self._path}: {shortened(found[place])} (unscaled) is no {logical}" for place in wrong]
            cursor.fail(rows[np.array(wrong)], said)
            for place in wrong:
                found[place] = 0
        raw = b"".join(number.to_bytes(16, "little", signed=True) for number in found)
        kind = pa.decimal128(logical.precision, logical.scale)
        return pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(raw)])


def texts(
    cursor: Cursor, rows: Numbers, offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], path: str
) -> pa.Array:
    """Strings of UTF-8; a record whose bytes are none fails."""
    kept = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    found = pa.Array.from_buffers(pa.string(), len(rows), kept)
    if (data & 0x80).any():
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            return _without_broken(cursor, rows, pa.Array.from_buffers(pa.binary(), len(rows), kept), path)
    return found


def _without_broken(cursor: Cursor, rows: Numbers, strings: pa.Array, path: str) -> pa.Array:
    read: list[str] = []
    for row, one in zip(rows, strings.to_pylist(), strict=True):
        try:
            read.append(one.decode())
        except UnicodeDecodeError:
            cursor.fail(np.array([row]), f"{path}: not valid UTF-8")
            read.append("")
    return pa.array(read, pa.string())


def shortened(value: Any) -> str:
    """A value in a message."""
    said = str(value) if not isinstance(value, int) or abs(value) < 10**60 else "a number of more than 60 digits"
    return said[:60]


__all__ = ["Value", "shortened", "texts"]
