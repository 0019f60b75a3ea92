"""Makes docs/python-api.md: every public class and function, with the first sentence of its docstring.

`--check` writes nothing and fails if the page is not up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import lakestreams
from lakestreams import agg, invariants
from lakestreams.api.handles import Handle
from lakestreams.run.pipeline_tables import PipelineTables
from lakestreams.testing import Result, TopologyTestDriver, assert_results

PAGE: Final = Path(__file__).parents[1] / "docs" / "python-api.md"
HEAD: Final = """\
<!-- made by scripts/python_api.py from docstrings -->
# Python API

Everything that `from lakestreams import ...` has. A step takes functions of rows: `lambda view: {"page": view.page}` returns
columns by name, `lambda view: view.page != "/health"` a condition. [Joins](joins.md) and
[pipelines in YAML](pipelines.md#joins) explain the options of joins, [formats](formats.md) the formats,
[expectations](expectations.md) the invariants.
"""
HANDLES: Final = (
    lakestreams.StreamsBuilder,
    lakestreams.KStream,
    lakestreams.KTable,
    lakestreams.GlobalKTable,
    lakestreams.KGroupedStream,
    lakestreams.KGroupedTable,
    lakestreams.TimeWindowedKStream,
    lakestreams.Topology,
)
FORMATS: Final = (
    lakestreams.Text,
    lakestreams.Json,
    lakestreams.Long,
    lakestreams.Int,
    lakestreams.Short,
    lakestreams.Uuid,
    lakestreams.JsonScalar,
    lakestreams.RegistryJson,
    lakestreams.JsonSchema,
    lakestreams.Avro,
    lakestreams.RegistryAvro,
    lakestreams.GlueAvro,
    lakestreams.Protobuf,
    lakestreams.RegistryProtobuf,
    lakestreams.ConnectJson,
    lakestreams.DebeziumJson,
    lakestreams.DebeziumAvro,
    lakestreams.MaxwellJson,
    lakestreams.EventTime,
)
LEFT_OUT: Final = {"name", "node", "add", "joins", "kafka_sinks", "outputs", "semantics", "sinks", "sources"}
"""Attributes that lead into the topology."""


EXPECTATION_KEYS: Final = {name for name in vars(Handle) if name.startswith("expect") or name == "holds"}


def sentence(of: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(of) or "").partition("\n\n")[0].split()).replace("|", "\\|")


def call(name: str, function: Callable[..., Any]) -> str:
    """How a function is called: its parameters without their types."""
    parameters = [
        one.replace(annotation=inspect.Parameter.empty)
        for one in inspect.signature(function).parameters.values()
        if one.name not in ("self", "unnamed")  # what is there only to be refused is not shown
    ]
    return f"{name}{inspect.Signature(parameters)}"


def row(name: str, of: Any) -> str:
    """A line of a table: a property's name or a call, and what it does."""
    shown = name if isinstance(of, property) else call(name, of)
    return f"| `{shown.replace('|', chr(92) + '|')}` | {sentence(of.fget if isinstance(of, property) else of)} |"


def methods(of: type) -> Iterator[str]:
    """The public methods and properties of a class, as lines."""
    for name, member in inspect.getmembers_static(of):
        if name.startswith("_") or name in LEFT_OUT or (name in EXPECTATION_KEYS and of is not Handle):
            continue
        if callable(member) or isinstance(member, property):
            yield row(name, member)


def table(rows: Iterator[str] | Sequence[str]) -> str:
    """The lines under one head."""
    return "\n".join(["| | |", "|---|---|", *rows])


def page() -> str:
    """The text of docs/python-api.md."""
    parts = [HEAD]
    for one in HANDLES:
        parts += [f"## {one.__name__}", sentence(one), table(list(methods(one)))]
    everywhere = "Sources, steps and outputs have these methods. They return the same handle."
    parts += ["## Expectations of rows", everywhere, table(list(methods(Handle)))]
    parts += ["## Formats", table([row(one.__name__, one) for one in FORMATS])]
    aggregators = [
        (name, one) for name, one in vars(agg).items() if inspect.isfunction(one) and not name.startswith("_")
    ]
    own = [(name, one) for name, one in aggregators if one.__module__ == agg.__name__]
    parts += [
        "## agg",
        "What `aggregate` makes of a group's values.",
        table([row(f"agg.{name}", one) for name, one in own]),
    ]
    kinds = [
        one
        for name, one in vars(invariants).items()
        if inspect.isclass(one) and issubclass(one, invariants.Invariant) and name[0] != "_"
    ][1:]
    parts += ["## invariants", "What `holds` takes.", table([row(f"invariants.{one.__name__}", one) for one in kinds])]
    functions = [("lakestreams.open", lakestreams.open), ("is_missing", lakestreams.is_missing)]
    parts += ["## Functions", table([row(name, one) for name, one in functions])]
    parts += ["## What open returns", sentence(PipelineTables), table(list(methods(PipelineTables)))]
    tests = [row("assert_results", assert_results)]
    parts += ["## lakestreams.testing", sentence(TopologyTestDriver), table([*methods(TopologyTestDriver), *tests])]
    parts += [f"A `Result`: {sentence(Result)} [Testing](testing.md) has examples."]
    return "\n\n".join(parts).replace("\n\n\n", "\n\n") + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes the page, or with `--check` only says whether it is up to date."""
    if "--check" in arguments:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
