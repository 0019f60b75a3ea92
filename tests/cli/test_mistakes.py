"""Typical mistakes in the two files: each is told with its line, what is wrong, what to do, and exit code 1; without Spark."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.cli.demo import PIPELINE
from lakestreams.errors import InvalidExpression, LocalPartsMissing
from lakestreams.errors.places import NodePlace
from lakestreams.run.failure import Secrets
from lakestreams.run.options import FileOptions
from lakestreams.run.runner import load, locate

SOURCES = """\
kafka:
  bootstrap_servers: 127.0.0.1:9

topics:
  PageViews:
    kind: stream
    key: {text: user}
    value: {text: page}
  UserProfiles:
    kind: table
    key: {text: user}
    value: {text: region}
"""
SELECT = """\
    select:
      page: PageViews.page
      region: coalesce(UserProfiles.region, '<unknown>')
"""

runner = CliRunner()


@dataclass(frozen=True)
class Mistake:
    """A text of one of the files, what stands there by mistake, and how it is told."""

    name: str
    right: str
    wrong: str
    line: int
    said: str
    fix: str
    code: str = "LS203"
    file: str = "p.yml"


MISTAKES = [
    Mistake(
        "a comma inside braces", SELECT, "    select: {d: date_add(page, region)}\n", 6,
        "between braces a comma ends a value, and d has one in it", 'put the value in quotes: d: "date_add(page, region)"',
    ),
    Mistake(
        "columns without quotes inside braces", "value: {text: page}", "value: {json: page string, n int}", 8,
        "between braces a comma ends a value, and json has one in it", 'put the value in quotes: json: "page string, n int"',
        file="sources.yml",
    ),
    Mistake("a tab", "    select:", "\tselect:", 6, "the line is indented with a tab", "indent with spaces", "LS201"),
    Mistake(
        "no colon behind a key", "page: PageViews.page", "page PageViews.page", 7,
        "the line has no colon after its key", "write it as key: value", "LS201",
    ),
    Mistake(
        "a colon in a value", "'<unknown>'", "'region: none'", 8,
        "the value has a colon and a space in it", "put quotes around the value", "LS201",
    ),
    Mistake(
        "a value that begins with a quote", "coalesce(UserProfiles.region, '<unknown>')", "'r' || UserProfiles.region", 8,
        "the value continues after its closing quote", "put the whole value into the other kind of quotes", "LS201",
    ),
    Mistake(
        "braces that stay open", "right: UserProfiles}", "right: UserProfiles", 5,
        "the { is not closed, or a comma is missing", "close it with }", "LS201",
    ),
    Mistake(
        "a line indented too deep", "    key: {text: user}", "      key: {text: user}", 7,
        "the line is indented deeper than the key before it", "indent both alike", "LS201", "sources.yml",
    ),
    Mistake(
        "a key twice", "page: PageViews.page", "region: PageViews.page", 8,
        "the key 'region' appears twice, first in line 7", "remove or rename one of them",
    ),
    Mistake(
        "a misspelt verb", "left_join:", "leftjoin:", 5,
        "there is no key 'leftjoin'", "did you mean 'left_join'? known here: ", "LS202",
    ),
    Mistake(
        "a misspelt kind", "kind: table", "kind: tabel", 10,
        "kind is 'tabel'; it is one of stream, table, global_table", "did you mean 'table'?", file="sources.yml",
    ),
    Mistake(
        "a source that is none", "right: UserProfiles", "right: UserProfile", 5,
        "left_join.right refers to 'UserProfile', which is neither a source nor a step", "did you mean 'UserProfiles'?", "LS207",
    ),
    Mistake(
        "a format as a word", "    key: {text: user}", "    key: text", 7,
        "key is 'text'; it should be a mapping of keys to values", "write it as {key: value}; its keys: text, long, ",
        file="sources.yml",
    ),
    Mistake(
        "a schema with colons", "value: {text: page}", "value: {json: 'page: string'}", 8,
        "the schema 'page: string' is not a list of `name type` columns", "{json: 'ms int, page string'}",
        "LS106", "sources.yml",
    ),
    Mistake(
        "a duration without a unit", "right: UserProfiles}", "right: UserProfiles, wait: 5}", 5,
        "left_join.wait: 5 has no unit", "lakestreams explain pipelines",
    ),
    Mistake(
        "a duration's unit misspelt", "right: UserProfiles}", "right: UserProfiles, wait: 5 minuts}", 5,
        "wait '5 minuts' is not a duration", "write it as a number with a unit: 10 minutes, 1.5 s, 250 ms", "LS107",
    ),
    Mistake(
        "two streams without a window", "kind: table", "kind: stream", 5,
        "a join of two streams needs a window", "within: 5 minutes", "LS112",
    ),
    Mistake(
        "a variable that is not set", "127.0.0.1:9", "${NOWHERE_TO_BE_FOUND}", 2,
        "the environment variable NOWHERE_TO_BE_FOUND is not set", "set it, or give it a default: ${", "LS206", "sources.yml",
    ),
    Mistake(
        "a function that is not allowed", "coalesce(", "reflect(", 8,
        "the function 'reflect' at character 1 is not on the allow-list", "lakestreams explain expressions", "LS204",
    ),
    Mistake(
        "two comparisons", "page: PageViews.page", "page: PageViews.page == 'a' == 'b'", 7,
        "can be grouped in two ways", "put parentheses around the part that is meant first", "LS204",
    ),
    Mistake(
        "an operand too few", "page: PageViews.page", "page: PageViews.page ||", 7,
        "the expression 'PageViews.page ||' cannot be read to its end", "look for an operand", "LS204",
    ),
    Mistake(
        "a subquery", "page: PageViews.page", "page: (select max(page) from views)", 7,
        "is no part of a plain expression", "join the other table in a step of its own", "LS204",
    ),
    Mistake(
        "a password written out", "127.0.0.1:9", "127.0.0.1:9\n  options: {ssl.key.password: hunter2}", 3,
        "the option ssl.key.password is a secret in plain text", "refer to it: secret://scope/key or ${NAME}",
        "LS205", "sources.yml",
    ),
    Mistake(
        "an address without a port", "127.0.0.1:9", "localhost", 2,
        "bootstrap_servers: 'localhost' is not host:port", "such as broker-1:9092", "LS205", "sources.yml",
    ),
    Mistake(
        "an output of a step that is none", "from: enriched", "from: enrichd", 11,
        "from refers to 'enrichd', which is neither a source nor a step", "did you mean 'enriched'?", "LS207",
    ),
    Mistake(
        "a module that is none", PIPELINE.partition("\n")[2], "topology: no_such_module:build\n", 2,
        "no_such_module cannot be imported: there is no such module", "put it next to p.yml", "LS207",
    ),
]  # fmt: skip

LEAKS = re.compile(r"sqlglot|Traceback|\bEQ\b|Subquery|<class|pydantic|yaml\.|could not find expected|SQLSTATE")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Both files in a working directory of their own; a session is not started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "p.yml").write_text(PIPELINE)

    def no_session(**_):
        raise LocalPartsMissing("here Spark would be started")

    monkeypatch.setattr("lakestreams.cli.check.open_session", no_session)
    return tmp_path


def check(*more):
    return runner.invoke(app, ["check", "p.yml", "--no-broker", *more])


def test_both_files_are_right_as_they_are(project):
    assert "here Spark would be started" in check().stderr


def shortcomings(text, mistake):
    """What a text about a mistake does badly."""
    head, *body = text.rstrip("\n").splitlines()
    message, _, fix = "\n".join(body).partition("\n  Fix: ")
    found = {
        "place": not re.match(rf"{mistake.code} [A-Z_]+   {re.escape(mistake.file)}:{mistake.line}\b", head),
        "message": mistake.said not in message,
        "fix": mistake.fix not in fix,
        "page": not fix.endswith(f"lakestreams explain {mistake.code}"),  # one fault, and nothing behind it
        "leak": bool(LEAKS.search(text)),
    }
    return {name for name, is_so in found.items() if is_so}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_told_with_its_line_what_it_is_and_what_to_do(project, mistake):
    stands_in = "sources.yml" if mistake.right in SOURCES else "p.yml"
    text = SOURCES if stands_in == "sources.yml" else PIPELINE
    assert mistake.right in text
    (project / stands_in).write_text(text.replace(mistake.right, mistake.wrong, 1))
    result = check()
    assert (result.exit_code, shortcomings(result.stderr, mistake)) == (1, set()), result.stderr


WORST = {
    "a comma inside braces": (
        """\
LS203 CONFIG_INVALID   p.yml:6  step "enriched"
  select.region) is empty; it should be text
  Fix: see the JSON Schema: lakestreams schema        docs/errors/LS203.md
""",
        {"message", "fix", "page"},
        """\
LS203 CONFIG_INVALID   p.yml:6  step "enriched"
  between braces a comma ends a value, and d has one in it
  Fix: put the value in quotes: d: "date_add(page, region)"        lakestreams explain LS203
""",
    ),
    "no colon behind a key": (
        """\
LS201 CONFIG_UNREADABLE   p.yml:8
  this is not YAML: mapping values are not allowed here
  Fix: check the path and the YAML at the given line        docs/errors/LS201.md
""",
        {"place", "message", "fix", "page"},
        """\
LS201 CONFIG_UNREADABLE   p.yml:7
  the line has no colon after its key
  Fix: write it as key: value        lakestreams explain LS201
""",
    ),
    "an operand too few": (
        """\
LS204 EXPRESSION_REFUSED   p.yml:7  step "enriched"  select.page
  the expression 'PageViews.page ||' is not a plain expression: Required keyword: 'expression' missing for <class 'sqlglot.expressions.core.DPipe'>
  Fix: use plain expressions over columns with functions of the allow-list (docs/expressions.md)        docs/errors/LS204.md
""",
        {"message", "fix", "page", "leak"},
        """\
LS204 EXPRESSION_REFUSED   p.yml:7  step "enriched"  select.page
  the expression 'PageViews.page ||' cannot be read to its end
  Fix: look for an operand, a comma or a bracket that is missing or too much there        lakestreams explain LS204
""",
    ),
}
"""The three worst messages: as they were before these tests (commit c5223d6), what was bad in them, and as they are."""


@pytest.mark.parametrize("name", WORST)
def test_the_worst_messages_read_as_they_should(project, name):
    (mistake,) = [one for one in MISTAKES if one.name == name]
    (project / "p.yml").write_text(PIPELINE.replace(mistake.right, mistake.wrong, 1))
    before, bad, after = WORST[name]
    assert check().stderr == after
    assert shortcomings(before, mistake) == bad, "these tests would find it, if a message became what it was"


def test_faults_of_several_lines_are_told_in_their_order(project):
    text = PIPELINE.replace("page: PageViews.page", "page: refl(PageViews.page)").replace("coalesce(", "coalesc(")
    (project / "p.yml").write_text(text.replace("from: enriched", "from: enrichd"))
    lines = [line.split()[-1] for line in check().stderr.splitlines() if re.match(r"LS\d+ ", line)][1:]
    places = re.findall(r"p\.yml:(\d+)", check().stderr)
    assert (places, len(lines)) == (["7", "8", "11"], 3)


# --- Python topologies -----------------------------------------------------------------------------------------------

MODULE = """\
from lakestreams import Text

def build(builder):
    views = builder.stream("PageViews", key=Text("user"), value=Text("page"))
    views.to_delta("silver.seen")
"""


@pytest.fixture
def beside(project):
    """A module beside the file that names it."""
    name = "topology_of_" + re.sub(r"\W", "_", project.name)
    (project / "conf").mkdir()
    (project / "conf" / "sources.yml").write_text(SOURCES)
    (project / "conf" / "p.yml").write_text(f"pipeline: seen\ntopology: {name}:build\n")
    yield project / "conf" / f"{name}.py"
    sys.modules.pop(name, None)


def test_a_python_topology_is_found_beside_its_file(beside):
    beside.write_text(MODULE)
    before = list(sys.path)
    (pipeline,) = load(FileOptions((beside.parent / "p.yml",)), Secrets())
    assert [sink.name for sink in pipeline.topology.sinks] == ["silver.seen"]
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            MODULE.replace("views.to_delta", "vews.to_delta"),
            r"raised NameError: name 'vews' is not defined \(\w+\.py:5\)",
        ),
        (MODULE.replace("def build(", "def buld("), r"has no function 'build'\n  Fix: did you mean \w+:buld\?"),
        ("import no_such_package\n", r"ModuleNotFoundError: No module named 'no_such_package' \(\w+\.py:1\)"),
        (MODULE + "raise SystemExit(0)\n", r"cannot be imported: SystemExit: 0 \(\w+\.py:6\)"),
        (MODULE.replace("views.to_delta", "raise SystemExit(0)  # "), r"raised SystemExit: 0 \(\w+\.py:5\)"),
        ("def build(:\n", r"cannot be imported: SyntaxError: .*\(\w+\.py, line 1\)"),
    ],
)
def test_a_mistake_in_python_is_told_with_its_own_line(beside, text, said):
    beside.write_text(text)
    result = runner.invoke(app, ["check", "conf/p.yml", "--no-broker"])
    assert result.exit_code == 1
    assert "conf/p.yml:2" in result.stderr
    assert re.search(said, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "line", "thing", "said"),
    [
        (MODULE.replace("views.to_delta", "views.to"), 5, "", "LS116 UNKNOWN_METHOD"),
        (MODULE.replace("views.to_delta", "views.join(views, name='j').to_delta"), 5, '  join "j"', "LS112 INVALID_OPTION"),
    ],
)  # fmt: skip
def test_a_refused_call_is_placed_at_its_own_line(beside, text, line, thing, said):
    beside.write_text(text)
    result = runner.invoke(app, ["check", "conf/p.yml", "--no-broker"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{said}   conf/{beside.name}:{line}{thing}\n"), result.stderr


# --- what only Spark's analyser finds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fragment", "line"),
    [("(`v`.`page` + 1)", 7), ("coalesce(`rv`.`region`, '<unknown>')", 8), (None, 4), ("nothing", 4)],
)
def test_what_the_analyser_refuses_is_placed_at_its_expression(project, fragment, line):
    (project / "p.yml").write_text(PIPELINE.replace("page: PageViews.page", "page: PageViews.page + 1"))
    (pipeline,) = load(FileOptions((project / "p.yml",)), Secrets())
    fault = InvalidExpression("does not fit", where=NodePlace("left_join", "enriched"), given=fragment)
    assert locate(fault, pipeline).where.line == line


@pytest.mark.parametrize(("fragment", "line"), [("(`v`.`page` > 0)", 8), ("(`page` IS NOT null)", 6), (None, 5)])
def test_what_the_analyser_refuses_of_an_expectation_is_placed_at_it(project, fragment, line):
    (project / "p.yml").write_text("""\
pipeline: kept_views

steps:
  # a filter has one expression, its expectation another
  kept:
    filter: {from: PageViews, where: page is not null}
    expect_or_drop:
      positive: page > 0
outputs:
  silver.kept_views: {from: kept}
""")
    (pipeline,) = load(FileOptions((project / "p.yml",)), Secrets())
    fault = InvalidExpression("does not fit", where=NodePlace("filter", "kept"), given=fragment)
    assert locate(fault, pipeline).where.line == line


def test_a_column_that_is_not_there_is_placed_at_its_expression(project):
    from lakestreams.expressions.parse import Expression
    from lakestreams.topology.fields import Fields

    text = PIPELINE.replace("page: PageViews.page", "page: PageViews.pag").replace(
        "UserProfiles.region", "UserProfiles.reg"
    )
    (project / "p.yml").write_text(text)
    (pipeline,) = load(FileOptions((project / "p.yml",)), Secrets())
    (join,) = pipeline.topology.joins
    faults = []
    sides = {name: Fields(name, {"user": "u", column: "c"}, faults, "step") for name, column in
             (("PageViews", "page"), ("UserProfiles", "region"))}  # fmt: skip
    for _, expression in join.joiner.columns:
        assert isinstance(expression, Expression)
        expression.render(sides)
    assert [(fault.where.line, fault.message) for fault in faults] == [
        (7, "PageViews has no column 'pag'"),
        (8, "UserProfiles has no column 'reg'"),
    ]
