"""Cases of a format: what each record becomes, and how that differs from what is wanted. No Spark: formats read Arrow's arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from lakestreams.formats import Format

BAD = "an error"  # stands for any error message
Told = tuple[Any, str | None]


def told(given: Format, records: Iterable[bytes | None]) -> list[Told]:
    """Of each record its columns or None, and its error or None."""
    found = given.decode(pa.array(list(records), pa.binary()))
    found.values.validate(full=True)
    rows = found.values.to_pylist(maps_as_pydicts="lossy")
    return list(zip(rows, found.errors.to_pylist(), strict=True))


def read(given: Format, cases: Mapping[str, bytes | None], nulls: Collection[str] = ()) -> dict[str, Told]:
    """Case name to (columns or None, error or None); `nulls` are the cases whose bytes say that there is no value."""
    found = dict(zip(cases, told(given, cases.values()), strict=True))
    for name, (value, error) in found.items():
        assert value is None or error is None, f"{name}: a struct and an error"
        assert (value is None and error is None) == (cases[name] is None or name in nulls), (
            f"{name}: neither a struct nor an error"
        )
    return found


def differences(found: Mapping[str, Told], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Cases that came out otherwise; a wanted value lists the columns that are not null, BAD any error."""
    wrong = {}
    for name, want in wanted.items():
        value, error = found[name]
        plain = BAD if error is not None else value and {k: v for k, v in value.items() if v is not None}
        if plain != want:
            wrong[name] = (plain, error)
    return wrong
