"""`docs/formats.md` shows every format, and each table says what the format above it really makes of those bytes."""

from __future__ import annotations

import ast
import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.docs.blocks import blocks
from tests.formats.cases import told
from tests.formats.test_headers import read

import lakestreams
from lakestreams import RegistryAvro, Topology
from lakestreams.formats import Format

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
_SECTION = re.compile(
    r"^```python\n(?P<code>[^`]*)^```\n\n\| bytes \| columns \|\n\|---\|---\|\n(?P<rows>(?:\|[^\n]*\n)+)", re.MULTILINE
)
_ERROR = "error: "


def names_of(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def sections() -> list[tuple[Format, list[tuple[bytes | None, str]]]]:
    """Each format with its rows: bytes, and what the page says of them."""
    found = []
    for section in _SECTION.finditer(PAGE.read_text(encoding="utf-8")):
        (given,) = [
            one for one in names_of(section["code"]).values() if isinstance(one, Format) and not isinstance(one, type)
        ]
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in section["rows"].splitlines()]
        found.append((given, [(ast.literal_eval(raw.strip("`")), said.strip("`")) for raw, said in rows]))
    return found


def meant(cell: str) -> Any:
    return cell if cell.startswith(_ERROR) else json.loads(cell)


def test_every_format_is_shown() -> None:
    public = {one for one in vars(lakestreams).values() if isinstance(one, type) and hasattr(one, "decode")}
    assert {type(given) for given, _ in sections()} == public
    assert PAGE.read_text(encoding="utf-8").count("| bytes | columns |") == len(sections())


def test_the_tables_say_what_is_read() -> None:
    for given, rows in sections():
        found = told(given, [raw for raw, _ in rows])
        for (value, error), (raw, said) in zip(found, rows, strict=True):
            wanted = meant(said)
            assert (_ERROR + error if error is not None else _as_shown(value)) == wanted, (given.describe(), raw)


def _as_shown(value: Any) -> Any:
    """The columns as JSON has them."""
    shown = {dt.datetime: lambda x: f"{x:%Y-%m-%dT%H:%M:%S}.{x.microsecond // 1000:03}Z", Decimal: float, dt.date: str}
    return json.loads(json.dumps(value, default=lambda x: shown[type(x)](x)))


def test_the_table_of_headers_says_what_is_said() -> None:
    _, _, table = PAGE.read_text(encoding="utf-8").partition(
        "| values of `__value_schema_id` before Avro | error |\n|---|---|\n"
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.partition("\n\n")[0].splitlines()]
    assert len(rows) == 5
    for values, said in rows:
        headers = [("__value_schema_id", one) for one in ast.literal_eval(values.strip("`"))]
        assert read(RegistryAvro('"long"').knowing({7: ('"long"',)}, strict=False), [(b"\x02", headers)]) == [
            (None, said)
        ]


def test_the_other_blocks_build_topologies() -> None:
    built = [
        name
        for block in blocks(PAGE)
        if block.language == "python" and "StreamsBuilder" in block.text
        for name, made in names_of(block.text).items()
        if isinstance(made, Topology)
    ]
    assert built == ["topology"]
