"""What results follow from, and what of it has changed: no Spark, no ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.config.compile import load_pipeline
from lakestreams.engine.takeover.changed import differences
from lakestreams.topology import results

SOURCES = """
kafka: {bootstrap_servers: "localhost:9092"}
topics:
  views: {kind: stream, key: {text: user}, value: {json: "page string, at bigint"}}
  clicks: {kind: stream, key: {text: user}, value: {json: "button string"}}
  users: {kind: table, key: {text: user}, value: {json: "region string"}}
"""
PIPELINE = """
pipeline: changing
steps:
  matched:
    join: {left: views, right: clicks, within: 5 minutes, grace: 1 minute}
    select: {page: views.page, button: clicks.button}
  named:
    left_join: {left: matched, right: users}
    select: {page: matched.page, region: "coalesce(users.region, '?')"}
  some:
    filter: {from: named, where: "page <> '/'"}
outputs:
  silver.named: {from: some}
"""


def of(folder: Path, pipeline: str = PIPELINE, sources: str = SOURCES) -> results.Results:
    (folder / "sources.yml").write_text(sources)
    (folder / "p.yml").write_text(pipeline)
    found: results.Results = json.loads(json.dumps(results.of(load_pipeline(folder / "p.yml").topology)))
    return found


CHANGED = [
    ("within: 5 minutes", "within: 10 minutes", ["matched: before 5 minutes -> 10 minutes, after 5 minutes -> 10 minutes"]),
    ("grace: 1 minute", "grace: 90 s", ["matched: grace 1 minute -> 90 seconds"]),
    (", grace: 1 minute", ", grace: 1 minute, rules: kafka", ["matched: rules not set -> kafka"]),
    ("left_join: {left: matched", "join: {left: matched", ["named: left_join of matched of users -> join of matched of users"]),
    ("coalesce(users.region, '?')", "users.region", ["named: joiner region is computed differently"]),
    ("page <> '/'", "page <> '/x'", ["some: predicate is computed differently"]),
    ("silver.named: {from: some}", "silver.others: {from: some}",
     ["silver.named: removed (to_delta of some)", "silver.others: added (to_delta of some)"]),
    ("{from: some}\n", "{from: some}\n  silver.users: {from: users, mode: changes}\n", None),
    ("silver.named: {from: some}", "silver.named: {from: named}", None),
    ("{from: some}\n", "{from: some}\n  silver.more: {from: named}\n", ["silver.more: added (to_delta of named)"]),
    ("string, at bigint", "string, at bigint, n int", ["views: value "]),
    ('kind: stream, key: {text: user}, value: {json: "page', 'kind: stream, max_future: 1 hour, key: {text: user}, value: {json: "page', ["views: max_future not set -> 1 hour"]),
    ('at bigint"}', 'at bigint"}, event_time: at', ["views: event_time "]),
    ('at bigint"}', 'at bigint"}, null_values: ignore', ["views: null_values not set -> ignore"]),
    ('at bigint"}', 'at bigint"}, expectations: {keys_not_null: drop}', ["views: keys_not_null not set -> drop"]),
    ('at bigint"}', 'at bigint"}, expect_or_drop: {paged: page is not null}', None),
    ("views: {kind", "views: {topic: other, kind", ["views: topic views -> other"]),
]  # fmt: skip
SAME = [
    ("steps:", "# a comment\nsteps:"),
    ("{left: views, right: clicks, within: 5 minutes, grace: 1 minute}",
     "{grace: 60 s, within: 300 s, right: clicks, left: views}"),
    ("coalesce(users.region, '?')", "COALESCE( users.region,'?' )"),
    ("steps:", "settings: {snapshot_every: 3, max_bad_share: 0.5}\nsteps:"),
    ("silver.named: {from: some}", "silver.named: {from: some, cluster_by: [page]}"),
    ("right: clicks,", "right: clicks, co_partitioning: warn,"),
    ("right: clicks,", "right: clicks, rules: strict,"),
    ('at bigint"}', 'at bigint"}, expectations: {keys_not_null: warn}'),
]  # fmt: skip


def replaced(text: str, old: str, new: str) -> tuple[str, str]:
    assert (text + SOURCES).count(old) >= 1, old
    return text.replace(old, new, 1), SOURCES.replace(old, new, 1)


@pytest.mark.parametrize(("old", "new", "told"), CHANGED)
def test_what_changes_rows_is_told_by_node_and_option(
    tmp_path: Path, old: str, new: str, told: list[str] | None
) -> None:
    found = differences(of(tmp_path), of(tmp_path, *replaced(PIPELINE, old, new)))
    assert found
    if told is not None:
        assert len(found) == len(told)
        assert all(line.startswith(start) for line, start in zip(found, told, strict=True)), found
    assert "'/x'" not in str(found), "expressions may hold a secret"


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_changes_no_row_is_no_change(tmp_path: Path, old: str, new: str) -> None:
    assert differences(of(tmp_path), of(tmp_path, *replaced(PIPELINE, old, new))) == []


ACTIONS = ("absent", "warn", "drop", "fail")
# Of a rule: who drops now kept rows before, or the other way round; one that failed let no row through that violates it.
DIFFER = {(one, "drop") for one in ("absent", "warn")} | {("drop", one) for one in ("absent", "warn", "fail")}


@pytest.mark.parametrize("former", ACTIONS)
@pytest.mark.parametrize("now", ACTIONS)
def test_a_rules_action_is_a_change_where_rows_differ(former: str, now: str) -> None:
    def ruled(action: str) -> results.Results:
        builder = StreamsBuilder("ruled")
        stream = builder.stream("views", key=Text("user"), value=Text("page"))
        if action != "absent":
            verb = {"warn": stream.expect, "drop": stream.expect_or_drop, "fail": stream.expect_or_fail}[action]
            verb("short", "length(page) < 5")
        stream.to_delta("silver.views")
        return results.of(builder.build())

    assert bool(differences(ruled(former), ruled(now))) == ((former, now) in DIFFER)


def test_the_mode_of_an_output_is_told() -> None:
    def kept(mode: Any) -> results.Results:
        builder = StreamsBuilder("kept")
        builder.table("users", key=Text("user"), value=Text("name")).to_delta("silver.users", mode=mode)
        return results.of(builder.build())

    assert differences(kept("merge"), kept("changes")) == ["silver.users: mode merge -> changes"]


def mapped(mapper: Callable[..., Any]) -> Topology:
    builder = StreamsBuilder("mapped")
    stream = builder.stream("views", key=Text("user"), value=Json("page string, n int"))
    stream.map_values(mapper, name="made").to_delta("silver.views")
    return builder.build()


def helper(value: Any) -> Any:
    return value.n + 1


def test_another_function_is_another_result_and_the_same_one_is_not() -> None:
    def adding(n: int) -> Callable[..., Any]:
        return lambda value: {"n": value.n + n}

    one = results.of(mapped(adding(1)))
    assert differences(one, results.of(mapped(adding(1)))) == []
    assert differences(one, results.of(mapped(adding(2)))) == ["made: mapper is computed differently"]
    assert differences(one, results.of(mapped(lambda value: {"n": helper(value)}))) != []


def test_what_a_function_calls_in_its_module_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = lambda value: {"n": helper(value)}  # noqa: E731
    before = results.of(mapped(calling))
    monkeypatch.setitem(globals(), "helper", lambda value: value.n + 2)
    assert differences(before, results.of(mapped(calling))) == ["made: mapper is computed differently"]


def test_functions_of_another_version_of_python_are_not_compared() -> None:
    def at(version: str) -> results.Results:
        return {"made": {"is": "map_values of views", "mapper": f"Python {version} function abc{version[-1]}"}}

    assert differences(at("3.11"), at("3.12")) == []
    assert differences(at("3.12"), {"made": {"is": "map_values of views", "mapper": "Python 3.12 function x"}})


def test_a_value_of_the_environment_is_compared_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peppered = PIPELINE.replace("'?'", "'${PEPPER}'")

    def under(value: str) -> results.Results:
        monkeypatch.setenv("PEPPER", value)
        return of(tmp_path, peppered)

    one, other = under("salt-and-vinegar"), under("smoked-paprika")
    assert differences(one, under("salt-and-vinegar")) == []
    assert differences(one, other) == ["named: joiner region is computed differently"]
    assert "salt" not in str(one)
