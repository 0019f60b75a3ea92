"""References to the environment in SQL: their values reach Spark, and nothing that is written or shown."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakestreams.config import load_pipeline, recorded
from lakestreams.config.recorded import ImportedNames, NotCompiled
from lakestreams.engine.ledger import fingerprint
from lakestreams.errors import ExpressionRefused, LakestreamsError, TopologyInvalid
from lakestreams.expressions.environment import References, Written, digest, references_in, resolved
from lakestreams.expressions.parse import compile_expression
from lakestreams.run.failure import Secrets
from lakestreams.run.options import FileOptions
from lakestreams.run.runner import load
from lakestreams.sql import literal
from lakestreams.testing.difference import text_of

SECRET = "hunter-22-pepper"
SOURCES = """\
topics:
  views:
    {kind: stream, delta: bronze.views, key: id bigint, value: page string, expect: {known: "page <> '${PEPPER}'"}}
  users: {kind: table, delta: crm.users, key: id bigint, value: "name string, amount int"}
"""
STEPS = """\
pipeline: seasoned
steps:
  a: {filter: {from: views, where: "page <> '${PEPPER}'"}, expect_or_drop: {b: "page <> \\"${PEPPER}\\""}}
  b: {map_values: {from: a, select: {page: "sha2(page || '${PEPPER}', 256)"}}}
  c: {select_key: {from: b, select: {k: "concat('${PEPPER}', page)"}}}
  d: {map: {from: c, key: {k: "'${PEPPER}'"}, value: {page: "'${PEPPER}'"}}}
  e: {flat_map_values: {from: d, each: "array(named_struct('x', '${PEPPER}'))"}}
  f: {count: {from: e, group_by: {k: "x || '${PEPPER}'"}}}
  g: {aggregate: {from: users, group_by: {k: "'${PEPPER}'"}, value: {v: "name || '${PEPPER}'"}, columns: {n: {max: "v || '${PEPPER}'"}}}}
  h: {left_join: {left: views, right: users, right_on: {id: "length('${PEPPER}') + amount"}}, select: {p: "'${PEPPER}'"}}
outputs:
  silver.f: {from: f}
  silver.g: {from: g}
  silver.h: {from: h, expect_or_fail: {last: "p = '${PEPPER}'"}}
"""


def written(folder: Path, steps: str = STEPS, sources: str = SOURCES) -> Path:
    (folder / "sources.yml").write_text(sources, encoding="utf-8")
    (folder / "p.yml").write_text(steps, encoding="utf-8")
    return folder / "p.yml"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PEPPER", SECRET)
    return written(tmp_path)


def sql_of(text: str, **values: str) -> str:
    return compile_expression(Written(text, References({f"${{{name}}}": one for name, one in values.items()}))).sql


# --- what an expression gets -----------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
@example("'; java_method('java.lang.System', 'exit', 1) --")
@example("a' or reflect('x', 'y') or 'b")
@example('a" || java_method("a", "b") || "')
@example("\\")
@example("\\'")
@example("${PEPPER}")
def test_no_value_leaves_its_quotes(value: str) -> None:
    assert sql_of("'${V}'", V=value) == sql_of('"${V}"', V=value) == literal(value)
    assert sql_of("concat('a${V}b', page)", V=value) == f"concat({literal(f'a{value}b')}, `page`)"


def test_names_and_raw_texts_hold_what_they_can() -> None:
    assert sql_of("`${V}`", V="a`b") == "`a``b`"
    assert sql_of("r'${V}'", V=r"\d+") == r"'\\d+'"
    with pytest.raises(ExpressionRefused, match=r"\$\{V\} stands for does not fit"):
        sql_of("r'${V}'", V="a'b")
    assert sql_of("amount > ${V}", V="100") == "(`amount` > 100)"
    assert sql_of(r"'\${V}'", V="100") == "'${V}'", "behind a backslash it is no reference"
    assert references_in("${A} '${B:-x}' \"${A}\" '\\${C}' `${D}`") == ["${A}", "${B:-x}", "${D}"]


@pytest.mark.parametrize("value", ["java_method('a', 'b')", "(select 1)", "1; drop table x", "current_user()"])
def test_a_value_outside_of_quotes_is_checked_as_any_text(value: str) -> None:
    with pytest.raises(ExpressionRefused) as caught:
        sql_of("page = ${V}", V=value)
    assert value not in str(caught.value)


def test_an_expression_shows_its_reference_and_means_its_value() -> None:
    one, other = (compile_expression(Written("'${V}'", References({"${V}": value}))) for value in (SECRET, "another"))
    assert one != other
    assert (one.text, SECRET in repr(one)) == ("'${V}'", False)
    assert one.render({}) == f"'{SECRET}'"
    again = pickle.loads(pickle.dumps(Written("'${V}'", References({"${V}": SECRET}))))
    assert (str(again), resolved(again)) == ("'${V}'", f"'{SECRET}'")


# --- where the value is not ------------------------------------------------------------------------------------------


def test_nothing_that_is_recorded_or_shown_has_the_value(path: Path) -> None:
    pipeline = load_pipeline(path)
    topology = pipeline.topology
    configuration = fingerprint.of(topology, pipeline.text, pipeline.semantics)
    shown = [
        pipeline.text, pipeline.semantics, repr(pipeline), topology.describe(), topology.semantics(), repr(topology), topology.mermaid(),
        topology.svg(), repr(configuration), *(text for rule in topology.expectations.rules for text in (rule.text, rule.id, rule.describe())),
    ]  # fmt: skip
    assert [text for text in shown if "hunter" in text] == []
    assert pipeline.text.count("${PEPPER}") == STEPS.count("${PEPPER}") + SOURCES.count("${PEPPER}") + 1, (
        "all, and the digest's"
    )
    fast = [hashlib.new(kind, SECRET.encode()).hexdigest() for kind in ("md5", "sha1", "sha256")]
    assert not any(one[:8] in pipeline.text for one in fast)


def test_messages_of_jobs_and_commands_have_the_reference(path: Path) -> None:
    secrets = Secrets()
    load(FileOptions((path,)), secrets)
    error = LakestreamsError(f"""cannot resolve "concat(page, {SECRET})" due to ...""", hint=SECRET)
    secrets.redact_error(error)
    assert "hunter" not in str(error)
    assert 'cannot resolve "concat(page, ${PEPPER})"' in error.message
    assert secrets.redact("a message without it") == "a message without it"


@pytest.mark.parametrize(
    "value",
    [
        f"reflect('{SECRET}')",
        "hunter   22\n(",
        "hunter" * 40 + "(",
        f"'{SECRET}",
        f"'{SECRET}' '{SECRET}'",
        "hunter2 hunter2",
    ],
)
def test_a_refused_expression_is_told_as_it_is_written(value: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole or cut short, with other blanks or in parts: none of the value is told."""
    monkeypatch.setenv("PEPPER", value)
    written(path.parent, STEPS.replace("""where: "page <> '${PEPPER}'\"""", 'where: "page <> ${PEPPER}"'))
    with pytest.raises(TopologyInvalid) as caught:
        load_pipeline(path)
    assert "hunter" not in str(caught.value)
    assert "page <> ${PEPPER}" in str(caught.value)


@pytest.mark.parametrize("value", ["1", "true", "100", "abc", "2024-01-1"])
def test_a_short_or_plain_value_is_not_looked_for(value: str) -> None:
    """It would be found by chance; a secret is longer."""
    assert References({"${V}": value}).redact(f"at {value} end") == (
        f"at {value} end" if value != "2024-01-1" else "at ${V} end"
    )
    assert References({"${V:-written-out}": "written-out"}).redact("written-out") == "written-out"


# --- fingerprints ----------------------------------------------------------------------------------------------------


def test_another_value_is_another_fingerprint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def both() -> tuple[str, str]:
        pipeline = load_pipeline(path)
        found = fingerprint.of(pipeline.topology, pipeline.text, pipeline.semantics)
        return found.whole, found.semantics

    first, again = both(), both()
    monkeypatch.setenv("PEPPER", "salt-and-sugar")
    other = both()
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_files_without_references_in_sql_have_the_text_that_they_had(tmp_path: Path) -> None:
    """So that no cycle of a former version is of another configuration."""
    pipeline = load_pipeline(written(tmp_path, STEPS.replace("${PEPPER}", "x"), SOURCES.replace("${PEPPER}", "x")))
    assert set(json.loads(pipeline.text)) == {"pipeline", "sources"}
    assert set(json.loads(pipeline.semantics)) == {"pipeline", "topics"}


def test_a_digest_tells_values_apart_and_is_of_its_place() -> None:
    found = {digest(pipeline, name, value) for pipeline in "ab" for name in ("${A}", "${B}") for value in ("x", "y")}
    assert len(found) == 8
    assert all(len(one) == 8 for one in found)


# --- recorded text ---------------------------------------------------------------------------------------------------


def test_a_recorded_text_is_evaluated_with_the_value_that_it_had(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = load_pipeline(path)
    described, own = pipeline.topology.describe(), ImportedNames.by(pipeline.text)
    assert own.variables == {"PEPPER"}
    again = recorded.topology(pipeline.text, described, own)
    kept = {node.name: node for node in again.nodes}
    assert kept["a"].predicate.expression.sql == f"(`page` != '{SECRET}')"  # type: ignore[union-attr]
    for value, why in ((None, "it is not set now"), ("other", "it has another value now")):
        if value is None:
            monkeypatch.delenv("PEPPER")
        else:
            monkeypatch.setenv("PEPPER", value)
        with pytest.raises(NotCompiled, match=f"environment variable PEPPER: {why}"):
            recorded.topology(pipeline.text, described, own)


def test_a_table_reads_nothing_from_the_environment_that_the_files_do_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes to the ledger could else have any variable put into rows that `verify` shows."""
    monkeypatch.setenv("CLOUD_KEY", "topsecret-key")
    pipeline = load_pipeline(path)
    content = json.loads(pipeline.text.replace("PEPPER", "CLOUD_KEY"))
    content["references"] = {"${CLOUD_KEY}": digest("seasoned", "${CLOUD_KEY}", "topsecret-key")}
    with pytest.raises(NotCompiled, match="CLOUD_KEY: the given files do not refer to it"):
        recorded.topology(json.dumps(content), pipeline.topology.describe(), ImportedNames.by(pipeline.text))
    del content["references"]  # then it is no reference
    made = recorded.topology(json.dumps(content), pipeline.topology.describe().replace("PEPPER", "CLOUD_KEY"))
    assert "topsecret" not in text_of([repr(node) for node in made.nodes])
