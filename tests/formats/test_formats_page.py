"""`docs/formats.md` shows every format, and each table says what the format above it really makes of those bytes."""

from __future__ import annotations

import ast
import json
import re
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from tests.docs.blocks import blocks

import lakestreams
from lakestreams import Topology
from lakestreams.formats import Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    public = {one for one in vars(lakestreams).values() if isinstance(one, type) and hasattr(one, "parse")}
    assert {type(given) for given, _ in sections()} == public
    assert PAGE.read_text(encoding="utf-8").count("| bytes | columns |") == len(sections())


def test_the_tables_say_what_is_read(spark: SparkSession) -> None:
    frames, wanted = [], {}
    for given, rows in sections():
        raw = [(f"{given.describe()}, row {number}", data) for number, (data, _) in enumerate(rows, 1)]
        wanted |= {name: said for (name, _), (_, said) in zip(raw, rows, strict=True)}
        parsed = given.parse(F.col("raw"))
        told = F.coalesce(
            F.concat(F.lit(_ERROR), parsed.error), F.to_json(parsed.value, {"ignoreNullFields": "false"}), F.lit("null")
        )
        frames.append(spark.createDataFrame(raw, "name string, raw binary").select("name", told.alias("told")))
    found = {row["name"]: row["told"] for row in reduce(DataFrame.unionAll, frames).collect()}
    assert {name: meant(told) for name, told in found.items()} == {name: meant(said) for name, said in wanted.items()}


def test_the_other_blocks_build_topologies() -> None:
    built = [
        name
        for block in blocks(PAGE)
        if block.language == "python" and "StreamsBuilder" in block.text
        for name, made in names_of(block.text).items()
        if isinstance(made, Topology)
    ]
    assert built == ["topology"]
