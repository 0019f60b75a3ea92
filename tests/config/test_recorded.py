"""The text that the ledger records: it compiles back to the topology that it is of, without files or environment."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lakestreams import StreamsBuilder, Text
from lakestreams.config import load_pipeline, recorded
from lakestreams.config.recorded import ImportedNames, NotCompiled
from lakestreams.engine.ledger import fingerprint

ROOT = Path(__file__).parents[2]
READY = sorted(path for path in (ROOT / "conf").glob("*.yml") if path.name not in ("sources.yml", "deployment.yml"))
SOURCES = """\
kafka: {bootstrap_servers: "${SERVERS}", options: {ssl.key.password: "${KEY_PASSWORD}"}}
topics:
  Views: {kind: stream, topic: "views-${PLACE}", key: {text: user}, value: {text: page}}
"""
STEPS = """\
pipeline: views
steps:
  second: {filter: {from: Views, where: "page = '/2'"}}
  first: {filter: {from: Views, where: "page = '/1'"}}
outputs:
  silver.z: {from: second}
  silver.a: {from: first}
"""


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_a_ready_pipeline_comes_back_from_its_text(path: Path) -> None:
    pipeline = load_pipeline(path)
    text = fingerprint.of(pipeline.topology, pipeline.text, pipeline.semantics).text
    description, config_text = fingerprint.parts(text)
    assert recorded.topology(config_text, description).describe() == pipeline.topology.describe()


def written(folder: Path, pipeline: str) -> Path:
    (folder / "sources.yml").write_text(SOURCES)
    path = folder / "views.yml"
    path.write_text(pipeline)
    return path


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("SERVERS", "KEY_PASSWORD", "PLACE"):
        monkeypatch.setenv(name, f"{name.lower()}:1" if name == "SERVERS" else name.lower())
    return monkeypatch


def test_it_needs_no_environment_and_keeps_the_order(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pipeline = load_pipeline(written(tmp_path, STEPS))
    for name in ("SERVERS", "KEY_PASSWORD", "PLACE"):
        environment.delenv(name)
    again = recorded.topology(pipeline.text, pipeline.topology.describe())
    assert [source.topic for source in again.sources] == ["views-place"]
    assert [sink.name for sink in again.sinks] == ["silver.z", "silver.a"]
    assert again.semantics() == pipeline.topology.semantics()


def test_what_is_in_the_text_is_not_resolved_once_more(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("PLACE", "${SERVERS}")
    path = written(tmp_path, STEPS.replace("'/2'", "'${PLACE}'"))
    (tmp_path / "sources.yml").write_text(SOURCES.replace("-${PLACE}", ""))
    pipeline = load_pipeline(path)
    assert json.loads(pipeline.text)["pipeline"]["steps"]["second"]["filter"]["where"] == "page = '${PLACE}'"
    again = recorded.topology(pipeline.text, pipeline.topology.describe(), ImportedNames.by(pipeline.text))
    second = next(node for node in again.nodes if node.name == "second")
    assert second.predicate.expression.sql == "(`page` = '${SERVERS}')"  # type: ignore[union-attr]
    assert again.describe() == pipeline.topology.describe()


def test_a_function_that_has_changed_is_told(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("declared_here")
    environment.setitem(sys.modules, "declared_here", module)

    def declares(output: str) -> None:
        def views(builder: StreamsBuilder) -> None:
            builder.stream("v", key=Text("user"), value=Text("page")).to_delta(output)

        module.views = views  # type: ignore[attr-defined]

    declares("silver.before")
    pipeline = load_pipeline(written(tmp_path, "pipeline: views\ntopology: declared_here:views\n"))
    before = pipeline.topology.describe()
    given = ImportedNames.by(pipeline.text)
    assert given == ImportedNames("declared_here:views")
    assert recorded.topology(pipeline.text, before, given).describe() == before
    declares("silver.after")
    with pytest.raises(NotCompiled, match="declared_here:views declares another topology now"):
        recorded.topology(pipeline.text, before, given)
    del module.views  # type: ignore[attr-defined]
    with pytest.raises(NotCompiled, match="a fault now: declared_here has no function 'views'"):
        recorded.topology(pipeline.text, before, given)


@pytest.mark.parametrize("given", [None, "own.module:views"])
@pytest.mark.parametrize(
    "named", ["os:getpid", "subprocess:run", "evil.module:f", "", "os", ["os:getpid"], {"a": 1}, 5]
)
def test_only_code_that_the_given_file_names_is_imported(
    named: object, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write to the ledger's table decides what stands in the text."""
    monkeypatch.setattr(importlib, "import_module", lambda name, *_: pytest.fail(f"imported {name}"))
    topics = {"v": {"kind": "stream", "key": {"text": "k"}, "value": {"text": "p"}}}
    text = json.dumps({"sources": {"topics": topics}, "pipeline": {"pipeline": "views", "topology": named}})
    with pytest.raises(NotCompiled, match="only the function of the given file is imported"):
        recorded.topology(text, "", ImportedNames(given))


@pytest.mark.parametrize("text", ["", "pace 1", "3", '{"pipeline": 3}'])
def test_a_text_of_no_files_is_told(text: str) -> None:
    with pytest.raises(NotCompiled, match="declared in Python"):
        recorded.topology(text, "")
