"""Values of declared types out of the texts that were cut from many records, and for which of them they are sure."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats import leaves
from lakestreams.formats.decoding import arrow_type
from lakestreams.formats.exact import Misfit, exact_of
from lakestreams.formats.kinds import UNITS, Kind, Leaf, Struct
from lakestreams.formats.shapes import is_text
from lakestreams.formats.skeletons import Slot, Values

_WHOLE: Final = "^-?(?:0|[1-9][0-9]{0,17})$"  # surely a bigint
_INTEGERS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_UTC: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]{1,6})?Z$"
_YEAR: Final = "^(?:[1-9]|0[1-9]|00[1-9]|000[1-9])"


def cells(kind: Kind, slot: Any, values: Values) -> tuple[Any, Any]:
    """A column, and which of its values are sure; None instead of the column if none is.

    Args:
        kind: the declared type.
        slot: a `Slot`; an object of slots; None where the records lack the field.
        values: of the records.
    """
    everywhere = np.ones(len(values), bool)
    if slot is None:
        return pa.nulls(len(values), arrow_type(kind)), everywhere
    if isinstance(slot, dict):
        return _struct(kind, slot, values) if isinstance(kind, Struct) else (None, None)
    if not isinstance(slot, Slot):
        return None, None
    texts = values.of(slot)
    if slot.quoted:
        if not isinstance(kind, Leaf):
            return None, None
        if kind.declared == "string":
            return texts, everywhere
        return _judged(kind, texts) if is_text(kind) else (None, None)
    return _bare(kind, texts)


def _struct(kind: Struct, slots: dict[str, Any], values: Values) -> tuple[Any, Any]:
    columns = []
    sure = np.ones(len(values), bool)
    for member in kind.members:
        column, fits = cells(member.kind, slots.get(member.field), values)
        if column is None:
            return None, None
        sure &= fits & _valid(column) if member.required else fits
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(kind))), sure


def _bare(kind: Kind, texts: Any) -> tuple[Any, Any]:
    """Numbers and words. What is neither of the type nor null is not sure."""
    null = _flags(pc.equal(texts, "null"))
    if not isinstance(kind, Leaf) or kind.declared == "string" or is_text(kind) or kind.declared == "binary":
        return pa.nulls(len(texts), arrow_type(kind)), null
    if kind.declared == "boolean":
        true, false = _flags(pc.equal(texts, "true")), _flags(pc.equal(texts, "false"))
        return pa.array(true, pa.bool_(), mask=~(true | false)), null | true | false
    if kind.declared in ("double", "float"):
        column, fits = _doubles(texts) if kind.declared == "double" else (None, None)
        return column, None if column is None else fits | null
    whole = _flags(pc.match_substring_regex(texts, _WHOLE))
    numbers = pc.if_else(pa.array(whole), texts, None).cast(pa.int64())
    if kind.declared in UNITS:
        low, high, size = leaves.bounds(kind.declared)
    else:
        bits = _INTEGERS[kind.declared]
        low, high, size = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 1
    if kind.declared != "bigint":
        fits = pc.fill_null(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)), fill_value=False)
        whole &= _flags(fits)
        numbers = pc.if_else(fits, numbers, None)
        numbers = numbers if size == 1 else pc.multiply(numbers, size)
    if kind.declared == "date_days":
        numbers = numbers.cast(pa.int32())
    return numbers.cast(arrow_type(kind)), whole | null


def _doubles(texts: Any) -> tuple[Any, Any]:
    """Infinity is refused, and `-0` is no whole number's zero: both are read exactly."""
    number = pc.and_not(pc.match_substring_regex(texts, "^[-0-9]"), pc.equal(texts, "-0"))
    try:
        column = pc.if_else(number, texts, None).cast(pa.float64())
    except pa.ArrowInvalid:
        return None, None
    return column, _flags(number) & ~np.isinf(column.to_numpy(zero_copy_only=False))


def _judged(kind: Leaf, texts: Any) -> tuple[Any, Any]:
    """Times and decimals that are texts: in their usual form at once, else one by one."""
    column = _usual(kind, texts)
    if column is not None:
        return column, np.ones(len(texts), bool)
    of: Any = exact_of(kind)
    values, fits = [], np.ones(len(texts), bool)
    for place, text in enumerate(texts.to_pylist()):
        try:
            values.append(of(text))
        except Misfit:
            values.append(None)
            fits[place] = False
    return pa.array(values, arrow_type(kind)), fits


def _usual(kind: Leaf, texts: Any) -> Any:
    """The column, if all texts have a form that Arrow reads alike: moments in UTC, days, decimals without zeros to drop."""
    if kind.declared == "timestamp":
        form = _UTC
    elif kind.declared == "date":
        form = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
    elif kind.declared.startswith("decimal("):
        precision, scale = leaves.sizes(kind.spark)
        whole = f"[1-9][0-9]{{0,{precision - scale - 1}}}" if precision > scale else "0"
        form = rf"^-?(?:0|{whole})" + (rf"(?:\.[0-9]{{1,{scale}}})?$" if scale else "$")
    else:
        return None
    usual = pc.match_substring_regex(texts, form)
    if form.startswith("^[0-9]{4}"):
        usual = pc.and_(usual, pc.match_substring_regex(texts, _YEAR))
    if not pc.all(usual).as_py():
        return None
    try:
        return texts.cast(arrow_type(kind))
    except pa.ArrowInvalid:
        return None


def _valid(column: Any) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _flags(found: Any) -> Any:
    return found.to_numpy(zero_copy_only=False)


__all__ = ["cells"]
