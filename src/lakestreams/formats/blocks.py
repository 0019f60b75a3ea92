"""Many records at once: by the skeletons that many of them share, and all others the exact way, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.cells import are_lists, cells
from lakestreams.formats.decoding import Decoded, behind_each_other, one_by_one, pieces, put_together, structs
from lakestreams.formats.objects import Objects
from lakestreams.formats.skeletons import ONE_BY_ONE, Lines, Skeleton, Slot, Values, alike


class Blocks:
    """Reads arrays of records.

    Args:
        objects: the exact way.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._fields = objects.fields

    def decode(self, raw: Any) -> Decoded:
        """Reads every record, by its skeleton where that surely says the same."""
        raw = raw.cast(pa.binary())
        return behind_each_other([self._piece(one) for one in pieces(raw)])

    def _piece(self, raw: Any) -> Decoded:
        parts = list(alike(Lines.of(raw), self._columns)) if len(raw) > ONE_BY_ONE else []
        done = np.zeros(len(raw), bool)
        for places, _ in parts:
            done[places] = True
        rest = np.flatnonzero(~done)
        if len(rest) or not parts:
            parts.append((rest, self.exactly(raw if not parts else raw.take(pa.array(rest)))))
        return put_together(parts, len(raw))._replace(one_by_one=pc.and_not(raw.is_valid(), pa.array(done)))

    def exactly(self, raw: Any) -> Decoded:
        """Reads every record by itself."""
        return one_by_one(self._fields, self._objects.read, raw)

    def _columns(self, skeleton: Skeleton, values: Values) -> tuple[Decoded, Any] | None:
        """The records for which it is sure, and their places; None if it is for none."""
        row, marked_by, words = self._objects.locate(skeleton.slots)
        if not isinstance(row, dict) or not len(values):
            return None
        sure = np.ones(len(values), bool)
        if words:
            if not isinstance(marked_by, Slot) or not marked_by.quoted:
                return None
            sure = pc.is_in(values.of(marked_by), pa.array(words)).to_numpy(zero_copy_only=False).copy()
        nothing = np.ones(len(values), bool)
        columns = []
        for field, path in zip(self._fields, self._objects.paths, strict=True):
            slot: Any = row
            for name in path:
                if slot is not None and not isinstance(slot, dict):
                    return None
                slot = None if slot is None else slot.get(name)
            column, fits = cells(field.member.kind, slot, values)
            if column is None:
                return None
            there = column.is_valid().to_numpy(zero_copy_only=False)
            nothing &= ~there
            sure &= fits if not field.required else fits & there
            columns.append(column)
        for number in range(skeleton.lists):  # also of those that no column has
            sure &= are_lists(values.list_of(number))
        sure &= ~nothing  # such an object may be another's wrapper
        kept = np.flatnonzero(sure)
        if not len(kept):
            return None
        if len(kept) < len(sure):
            columns = [one.take(pa.array(kept)) for one in columns]
        made = structs(self._fields, columns, np.zeros(len(kept), bool))
        return Decoded(made, pa.nulls(len(kept), pa.string())), kept


__all__ = ["Blocks"]
