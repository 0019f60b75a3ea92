"""Names and texts in SQL: quoted in one place, and no statement of the source is put together otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lakestreams
from lakestreams import Json, StreamsBuilder, Text
from lakestreams.config import load_pipeline
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import InvalidName, LakestreamsError, TableNameCollision, TopologyInvalid
from lakestreams.evaluate import walk
from lakestreams.expressions.text import _decoded
from lakestreams.sql import literal, name_fault, quoted, type_of
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(lakestreams.__file__).parent

HOSTILE = [
    "", " ", "a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a\nb", "a\tb", "a=b", "a.b", "a`b", "``", "`", "a'b", 'a"b',
    "a\\b", "a/b", "a:b", "a|b", "a*b", "*", "a\0b", "a\x1b[31mb", "a\x7fb", "a\x85b", "a\u00a0b", "a\u2028b", "a\u202eb",
    "a\u200bb", "a\u2066b", "\ufeffa", "a\ud800b", "x" * 256, "a` int) USING delta LOCATION '/tmp/elsewhere' --",
    "a` STRING, `b", "a`, current_user() as `b", "${A}", "<b>", "a\N{NO-BREAK SPACE}", "🦆",
]  # fmt: skip
HONEST = ["a", "A1", "_", "_a", "1st", "user-id", "@timestamp", "$cost", "a#b", "größe", "日本", "हिन्दी", "select", "from",
          "event time".replace(" ", "_"), "x" * 255]  # fmt: skip


# --- quoting ---------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"`((?:[^`]|``)*)`")  # SqlBaseLexer.g4: BACKQUOTED_IDENTIFIER


def read_back(text: str) -> list[str]:
    """The names of a path, as Spark's grammar takes it apart."""
    names = []
    while True:
        found = _NAME.match(text)
        assert found is not None, text
        names.append(found[1].replace("``", "`"))
        text = text[found.end() :]
        if not text:
            return names
        assert text[0] == ".", text
        text = text[1:]


@given(st.lists(st.text(), min_size=1, max_size=4))
@example(["a`.`b"])
@example(["`"])
def test_a_quoted_path_is_its_names_and_nothing_else(names: list[str]) -> None:
    assert read_back(quoted(*names)) == names


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\\'; drop table t --")
@example("it's \\u0041 \\101 \\% \0 \u202e \U0001f986")
def test_a_literal_is_its_text_and_nothing_else(text: str) -> None:
    written = literal(text)
    assert re.fullmatch(r"'(?:[^'\\]|\\.)*'", written, re.DOTALL), "Spark's lexer: STRING_LITERAL"
    assert _decoded(written[1:-1]) == text


@pytest.mark.parametrize("root", ["/lake/a`b", "/lake/`; drop table x; --", '/lake/it\'s "here"', "/läke/a b"])
def test_no_folder_ends_its_quotes(root: str) -> None:
    lake = Lake(root)
    tables = [
        lake.control("ledger"),
        lake.bronze("p", "t"),
        lake.output("a"),
        lake.state("p", "x"),
        lake.snapshot("p", "t"),
    ]
    for table in tables:
        assert table.reference.startswith("delta.`")
        assert read_back(table.reference.removeprefix("delta.")) == [table.path]


@pytest.mark.parametrize("catalog", ["", "a.b", "a b", "a`b", "a/b", "a'b", "a\nb", "a\x7f", "x" * 256, "a;drop table"])
def test_a_catalog_that_no_statement_could_name_is_refused(catalog: str) -> None:
    with pytest.raises(InvalidName, match="the catalog is"):
        Lake("/Volumes/x", catalog=catalog)
    assert Lake("/Volumes/x", catalog="main-eu_1").output("a").reference == "`main-eu_1`.`silver`.`a`"


@pytest.mark.parametrize("name", ["_lakestreams.ledger", "_LakeStreams.x", "main._lakestreams.epochs"])
def test_no_output_lies_among_the_projects_own_tables(name: str) -> None:
    lake = Lake("/Volumes/x", catalog="main")
    with pytest.raises(TableNameCollision, match="among lakestreams' own tables"):
        lake.output(name)
    with pytest.raises(TableNameCollision):
        Lake("/lake", control_schema="_own").output("_own.ledger")
    assert lake.output("other._lakestreams.x").reference == "`other`.`_lakestreams`.`x`"


# --- what a column may be called -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_that_tables_cannot_carry_is_none(name: str) -> None:
    assert name_fault(name) is not None


@pytest.mark.parametrize("name", HONEST)
def test_a_name_that_tables_carry_is_one(name: str) -> None:
    assert name_fault(name) is None


SOURCES = """\
topics:
  views: {kind: stream, delta: bronze.views, key: id bigint, value: page string}
  users: {kind: table, delta: crm.users, key: id bigint, value: name string}
"""
PLACES = {
    "map_values": "s: {{map_values: {{from: views, select: {{{name}: page}}}}}}",
    "select_key": "s: {{select_key: {{from: views, select: {{{name}: page}}}}}}",
    "key of map": "s: {{map: {{from: views, key: {{{name}: page}}, value: {{x: page}}}}}}",
    "value of map": "s: {{map: {{from: views, key: {{x: page}}, value: {{{name}: page}}}}}}",
    "join": "s: {{left_join: {{left: views, right: users}}, select: {{{name}: page}}}}",
    "mapped key": "s: {{select_key: {{from: views, select: {{x: page}}}}}}\n  t: {{left_join: {{left: views, right: users, right_on: {{{name}: users.name}}}}}}",
    "group_by": "s: {{count: {{from: views, group_by: {{{name}: page}}}}}}",
    "aggregate": "s: {{aggregate: {{from: views, columns: {{{name}: count}}}}}}",
}  # fmt: skip


def loaded(folder: Path, steps: str, output: str = "{from: s}") -> list[LakestreamsError]:
    """The faults of a pipeline with these steps."""
    (folder / "sources.yml").write_text(SOURCES, encoding="utf-8")
    (folder / "p.yml").write_text(f"pipeline: p\nsteps:\n  {steps}\noutputs:\n  silver.o: {output}\n", encoding="utf-8")
    try:
        load_pipeline(folder / "p.yml")
    except TopologyInvalid as invalid:
        return list(invalid.faults)
    return []


def in_yaml(name: str) -> str:
    return '"' + "".join(sign if sign.isalnum() and sign.isascii() else f"\\U{ord(sign):08x}" for sign in name) + '"'


@pytest.mark.parametrize("place", PLACES)
def test_a_file_says_of_each_new_column_what_tables_cannot_carry(place: str, tmp_path: Path) -> None:
    assert loaded(tmp_path, PLACES[place].format(name="fine")) == []
    for name in ("a b", "a,b", "a`b", "a\x1bb", "a` int) USING delta LOCATION '/tmp/x' --"):
        (fault,) = loaded(tmp_path, PLACES[place].format(name=in_yaml(name)))
        assert isinstance(fault, InvalidName)
        assert "which tables cannot carry" in fault.message
        assert (fault.where or "").startswith(f"{(tmp_path / 'p.yml').as_posix()}:{4 if place == 'mapped key' else 3}")


@pytest.mark.parametrize("option", ["cluster_by", "partition_by"])
def test_a_layout_names_no_column_that_tables_cannot_carry(option: str, tmp_path: Path) -> None:
    step = PLACES["map_values"].format(name="fine")
    assert loaded(tmp_path, step, f"{{from: s, {option}: [fine]}}") == []
    (fault,) = loaded(tmp_path, step, f"{{from: s, {option}: ['x`) LOCATION ''/tmp/x'' --']}}")
    assert isinstance(fault, InvalidName)


@given(st.text(min_size=1, max_size=12) | st.sampled_from([*HOSTILE[1:], *HONEST, "<<"]))
@settings(max_examples=60)
def test_any_name_of_a_column_is_refused_or_sound(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    if any(0xD800 <= ord(sign) <= 0xDFFF for sign in name) or len(name) > 249:
        return  # no YAML; longer than any name of a file
    faults = loaded(tmp_path_factory.mktemp("names"), PLACES["map_values"].format(name=in_yaml(name)))
    assert [type(one) for one in faults] == ([] if name_fault(name) is None else [InvalidName])


# --- in Spark --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_names_in_spark_are_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """Through creation, appends and merges, in a folder whose name is hostile; nothing stands anywhere else."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    nested = StructType([StructField(name, StringType()) for name in ("a`b", "a b: int> --", "c'd", "e\\f")])
    assert spark.createDataFrame([], f"c {type_of(nested)}").schema["c"].dataType == nested
    root = tmp_path / "a`b'c \"d"
    fine = HONEST[1:-1]
    with small(spark):
        for number, layout in enumerate(({"cluster_by": fine[:2]}, {"partition_by": fine[2:5]})):
            columns = [StructField(name, StringType()) for name in fine]
            schema = StructType([StructField("k", LongType()), *columns, StructField("cycle", LongType())])
            table = Lake(str(root)).output(f"t{number}")
            table.create(spark, schema, **layout)
            for cycle in (1, 2):
                row = spark.range(1).select(
                    F.col("id").alias("k"), *(F.lit(f"{name} {cycle}").alias(name) for name in fine), F.lit(cycle).cast("long").alias("cycle")
                )  # fmt: skip
                table.merge(spark, row, ["k"], newer="cycle", gone="k < 0")
            assert [tuple(row) for row in table.read(spark).collect()] == [(0, *(f"{name} 2" for name in fine), 2)]
        for name in ("a b", "a` STRING) USING delta LOCATION '/tmp/x' --", "a\nb"):
            with pytest.raises(InvalidName):
                Lake(str(root)).output("never").create(spark, StructType([StructField(name, StringType())]))
    assert [path.name for path in tmp_path.iterdir()] == [root.name]


def test_functions_make_no_name_that_tables_cannot_carry(spark: SparkSession) -> None:
    """In Python, where no file is read: names of columns, and those inside structs."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    builder = StreamsBuilder("p")
    views = builder.stream("views", key=Text("user"), value=Json("page string, n int"))
    hostile = "a` int) USING delta LOCATION '/tmp/x' --"
    views.map_values(lambda view: {hostile: view.page}, name="named")
    views.select_key(lambda view: {"a b": view.page}, name="keyed")
    views.map_values(lambda view: {"x": F.named_struct(F.lit("a b"), view.page)}, name="nested")
    views.map_values(lambda view: {"x": F.array(F.named_struct(F.lit("a`b"), view.page))}, name="deeper")
    views.map_values(lambda view: {"x": F.from_json(view.page, "`a,b` int")}, name="read")
    views.map_values(lambda view: {7: view.page}, name="a_number")  # type: ignore[dict-item]
    views.map_values(lambda view: {"größe": view.page}, name="fine").to_delta("o")
    _, faults = walk.check(builder.build(), spark)
    assert [(type(one), (one.where or "").split('"')[1]) for one in faults] == [
        (InvalidName, name) for name in ("named", "keyed", "nested", "deeper", "read", "a_number")
    ]


# --- the source ------------------------------------------------------------------------------------------------------

# Methods that take SQL as text.
_TAKE_SQL = {"sql", "expr", "where", "filter", "selectExpr", "createDataFrame"}
_STATEMENT = re.compile(
    r"(?i)\b(select|merge into|delete from|create table|alter table|insert|update set|describe (detail|history)|optimize|"
    r"vacuum|tblproperties|using delta|assert_true)\b"
)
_QUOTE = {"quoted", "literal", "listed", "type_of", "columns_of", "struct_type"}
# What is put into statements and is neither quoted on the spot nor a number: SQL that is made, and quoted, elsewhere. What
# is added here is to be looked at: can a user's word be in it?
KNOWN = {
    "verify/sql_sides.py": {"_WORD.format(_DIGITS)", "_WORD.format(_TAIL)"},
    "deploy/files.py": {"key"},  # the place of a key in a bundle: no SQL
    "deploy/parameters.py": {"key", "other.job"},
    "deploy/resource_rules.py": {"key", "kind"},
    "deploy/rules.py": {"key", "self.key"},
    "cli/target.py": {"', '.join(tables)"},  # a message
    "config/joins.py": {"spec.left"},  # a message
    "config/steps.py": {"' and '.join(inside)"},  # a message
    "engine/ingest/batch_metrics.py": {"failed"},  # numbers of partitions and of rules
    "engine/ingest/delta_source.py": {"source.delta"},  # a message
    "engine/ingest/table_reader.py": {"source_table.version"},  # a number
    "engine/ledger/fence.py": {"condition"},  # a statement of the fence or the ledger
    "engine/runtime/table.py": {
        "bound",
        "layout",
        "newer",
        "same",
        "view",
        "where",
    },  # of the engine's own columns, keys quoted by sinks
    "formats/schema.py": {"ddl"},  # read by sqlglot alone
}


class Function(ast.NodeVisitor):
    """What a function's names stand for."""

    def __init__(self, function: ast.AST) -> None:
        self.values: dict[str, list[ast.expr]] = {}
        self.numbers: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.comprehension | ast.For):
                self._assign(node.target, node.iter)
            elif isinstance(node, ast.AugAssign):
                self._assign(node.target, node.value)
            elif isinstance(node, ast.arg) and node.annotation is not None and _is_number(node.annotation):
                self.numbers.add(node.arg)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                self._assign(one, its)
        elif isinstance(target, ast.Name):
            self.values.setdefault(target.id, []).append(value)

    def is_sound(self, part: ast.expr, depth: int = 0) -> bool:
        """Whether no user's word can be in it but a quoted one."""
        if isinstance(part, ast.Call):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if name == "join":
                return self.is_sound(part.args[0], depth + 1)
            if name == "format":
                return self.is_sound(part.func.value, depth) and all(  # type: ignore[attr-defined]
                    self.is_sound(one, depth + 1) for one in [*part.args, *(word.value for word in part.keywords)]
                )
            return name in _QUOTE
        if isinstance(part, ast.GeneratorExp | ast.ListComp):
            return self.is_sound(part.elt, depth + 1)
        if isinstance(part, ast.IfExp):
            return self.is_sound(part.body, depth) and self.is_sound(part.orelse, depth)
        if isinstance(part, ast.JoinedStr):
            return all(self.is_sound(one.value, depth) for one in part.values if isinstance(one, ast.FormattedValue))
        if isinstance(part, ast.Constant):
            return True
        if isinstance(part, ast.Name) and part.id in self.numbers:
            return True
        if isinstance(part, ast.Name) and part.id in self.values and depth < 5:
            return all(self.is_sound(one, depth + 1) for one in self.values[part.id])
        last = ast.unparse(part).rpartition(".")[2].lstrip("_")
        return last == "reference" or last.isupper()


def _is_number(annotation: ast.expr) -> bool:
    return ast.unparse(annotation) in ("int", "float", "int | None", "float | None")


def functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Functions, and what stands outside of them."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    yield ast.Module([node for node in ast.iter_child_nodes(tree) if isinstance(node, ast.Assign)], [])


def statements(function: ast.AST) -> Iterator[ast.JoinedStr]:
    """F-strings that are SQL: by what they say, or by what they are given to."""
    given = {
        id(argument)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKE_SQL
        for argument in node.args
    }
    for node in ast.walk(function):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value for part in node.values if isinstance(part, ast.Constant))
            if id(node) in given or _STATEMENT.search(text):
                yield node


def unsound(text: str) -> set[str]:
    """What is put into SQL without being quoted."""
    found = set()
    for function in functions(ast.parse(text)):
        known = Function(function)
        for statement in statements(function):
            for part in statement.values:
                if isinstance(part, ast.FormattedValue) and not known.is_sound(part.value):
                    found.add(ast.unparse(part.value))
    return found


def test_whatever_is_put_into_a_statement_is_quoted() -> None:
    files = {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    found = {name: unsound(text) for name, text in files.items()}
    assert {name: parts for name, parts in found.items() if parts} == KNOWN


def test_no_name_is_put_between_quotes_by_hand() -> None:
    """But for texts that no Spark reads: of Markdown, and of messages."""
    written = {"config/schema.py", "config/reference.py", "expressions/names.py"}
    found = {
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr) and str(file.relative_to(SOURCE)) not in written
        for before, after in pairwise(node.values)
        if isinstance(before, ast.Constant)
        and str(before.value).endswith("`")
        and isinstance(after, ast.FormattedValue)
        if not ast.unparse(after.value).lstrip("_").isupper()
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(t): spark.sql(f'select * from {t}')", {"t"}),
        ("def f(t):\n name = t.name\n spark.sql(f'select * from {name}')", {"name"}),
        ("def f(t): F.expr(f'{t} > 1')", {"t"}),
        ("def f(t): return ', '.join(f'{a} int' for a in t) + f'ALTER TABLE {t}'", {"t"}),
        ("def f(t):\n a = ', '.join(x for x in t)\n return f'create table x ({a})'", {"a"}),
        ("def f(t): spark.sql(f'select * from {quoted(t)}')", set()),
        ("def f(t):\n a = ', '.join(quoted(x) for x in t)\n return f'create table x ({a})'", set()),
        ("def f(t: int): spark.sql(f'select {t} from {self.reference} where {_C}')", set()),
    ],
)
def test_the_walk_sees_what_is_not_quoted(text: str, found: set[str]) -> None:
    assert unsound(text) == found
