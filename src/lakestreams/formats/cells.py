"""Values of declared types out of the texts that were cut from many records, and for which of them they are sure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats import leaves
from lakestreams.formats.decoding import arrow_type
from lakestreams.formats.exact import Misfit, exact_of, has_strings, lost
from lakestreams.formats.jsontext import parsed
from lakestreams.formats.kinds import UNITS, Array, Kind, Leaf, Member, Struct
from lakestreams.formats.lists import BRACES, ListSlot, elements
from lakestreams.formats.shapes import Unfit, is_text, shape_of
from lakestreams.formats.skeletons import ONE_BY_ONE, Lines, Skeleton, Slot, Values, alike

_EXACT_DIGITS: Final = 15  # so many a double holds, as which numbers are read
_ONLY: Final = "v"  # the name of an element in the object around it
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
    if isinstance(slot, ListSlot):
        return _lists(kind, values.list_of(slot.number)) if isinstance(kind, Array) else (None, None)
    if not isinstance(slot, Slot):
        return None, None
    texts = values.of(slot)
    if slot.quoted:
        if not isinstance(kind, Leaf):
            return None, None
        if kind.declared == "string":
            return texts, everywhere
        if kind.declared == "binary":
            return _each(kind, texts, str)
        return judged(kind, texts) if is_text(kind) else (None, None)
    return _bare(kind, texts)


def are_lists(texts: Any) -> Any:
    """Which of these texts of lists are JSON, and not nested too deep."""
    _, sure = _elements(Struct(()), texts)
    rest = np.flatnonzero(~sure)
    if len(rest):
        sure[rest] = [_is_json(one) for one in texts.take(pa.array(rest)).to_pylist()]
    return sure


def _lists(kind: Array, texts: Any) -> tuple[Any, Any]:
    """Lists: by the columns of their elements, or each the exact way."""
    column, sure = _elements(Struct((Member(_ONLY, _ONLY, kind.element),)), texts)
    rest = np.flatnonzero(~sure)
    if not len(rest):
        return column, sure
    own, fits = _each(kind, texts.take(pa.array(rest)), _list)
    if column is None:
        return own, fits
    order = np.arange(len(texts))
    order[rest] = len(texts) + np.arange(len(rest))
    sure[rest] = fits
    return pa.concat_arrays([column, own]).take(pa.array(order)), sure


def _elements(kind: Struct, texts: Any) -> tuple[Any, Any]:
    """Lists of the elements that a struct has as its only member, and which are sure; None: none is looked at.

    Each element is read as an object around it: so whatever it is, many are alike.
    """
    found = elements(texts)
    if not found.sound.all():  # a bracket of theirs may be in the wrong list
        good = np.flatnonzero(found.sound)
        sure, places = np.zeros(len(texts), bool), np.zeros(len(texts), np.int64)
        column, sure[good] = _elements(kind, texts.take(pa.array(good)))
        places[good] = np.arange(len(good))
        return None if column is None else column.take(pa.array(places, mask=~found.sound)), sure
    if len(found.texts) <= ONE_BY_ONE:
        return None, np.zeros(len(texts), bool)
    around = pc.binary_join_element_wise(f'{{"{_ONLY}":', found.texts, "}", "").cast(pa.binary())
    done = np.zeros(len(around), bool)
    order = np.zeros(len(around), np.int64)
    parts, before = [], 0

    def read(skeleton: Skeleton, values: Values) -> tuple[Any, Any] | None:
        column, sure = _struct(kind, skeleton.slots, values) if kind.members else (pa.nulls(len(values)), None)
        if column is None:
            return None
        sure = np.ones(len(values), bool) if sure is None else sure
        for number in range(skeleton.lists):
            sure &= are_lists(values.list_of(number))
        kept = np.flatnonzero(sure)
        return column.take(pa.array(kept)), kept

    for rows, column in alike(Lines.of(around), read):
        done[rows] = True
        order[rows] = before + np.arange(len(rows))
        before += len(rows)
        parts.append(column)
    sure = np.bincount(found.owner, ~done, minlength=len(texts)) == 0
    if not kind.members or not parts:
        return None, sure if not kind.members else np.zeros(len(texts), bool)
    values = pa.concat_arrays(parts).field(0).take(pa.array(order, mask=~done))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(found.owner, minlength=len(texts)))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values), sure


def _list(text: str) -> Any:
    """What a list's text says.

    Raises:
        ValueError: if it is no JSON, or may be nested too deep together with what is around it.
    """
    if text.count("[") + text.count("{") > BRACES:
        raise ValueError(text)
    return parsed(text)


def _is_json(text: str) -> bool:
    try:
        _list(text)
    except ValueError:
        return False
    return True


def _each(kind: Kind, texts: Any, read: Callable[[str], Any]) -> tuple[Any, Any]:
    """Texts that are read the exact way, equal ones once."""
    shape, exact, strings = shape_of(kind), exact_of(kind), has_strings(kind)
    found, fits, encoded = [], [], texts.dictionary_encode()
    for one in encoded.dictionary.to_pylist():
        value = None
        try:
            given = read(one)
            shaped = None if given is None else shape(given)
            sure = not (strings and shaped is not None and lost(kind, shaped))
            value = shaped if shaped is None or exact is None else exact(shaped)
        except (ValueError, Unfit, Misfit):
            sure = False
        found.append(value if sure else None)
        fits.append(sure)
    places = encoded.indices
    return pa.array(found, arrow_type(kind)).take(places), np.array(fits, bool)[places.to_numpy()]


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
    if not isinstance(kind, Leaf) or kind.declared in ("string", "binary"):
        return pa.nulls(len(texts), arrow_type(kind)), null
    if kind.declared.startswith("decimal("):
        column = _usual(kind, pc.if_else(pa.array(null), None, texts), _EXACT_DIGITS)
        if column is not None:
            return column, np.ones(len(texts), bool)
    if is_text(kind) or kind.declared == "float":
        return _each(kind, texts, parsed)
    if kind.declared == "boolean":
        true, false = _flags(pc.equal(texts, "true")), _flags(pc.equal(texts, "false"))
        return pa.array(true, pa.bool_(), mask=~(true | false)), null | true | false
    if kind.declared == "double":
        column, fits = _doubles(texts)
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
    """Infinity is refused, which is read exactly."""
    number = pc.match_substring_regex(texts, "^[-0-9]")
    try:
        column = pc.if_else(number, texts, None).cast(pa.float64())
    except pa.ArrowInvalid:
        return None, None
    return column, _flags(number) & ~np.isinf(column.to_numpy(zero_copy_only=False))


def judged(kind: Leaf, texts: Any) -> tuple[Any, Any]:
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


def _usual(kind: Leaf, texts: Any, digits: int = 38) -> Any:
    """The column, if all texts have a form that Arrow reads alike: moments in UTC, days, decimals without zeros to drop.

    Args:
        digits: of a decimal, at most.
    """
    if kind.declared == "timestamp":
        form = _UTC
    elif kind.declared == "date":
        form = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
    elif kind.declared.startswith("decimal("):
        precision, scale = leaves.sizes(kind.spark)
        precision = min(precision, digits)
        if precision < scale:
            return None
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


def _flags(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)


__all__ = ["are_lists", "cells", "judged"]
