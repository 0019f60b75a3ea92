"""`lakestreams init pipeline`: a further pipeline for a project, in YAML or Python, with a case that it passes and a job."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from lakestreams.config import schema_files
from lakestreams.config.formats import OF_COLUMNS, FormatSpec
from lakestreams.config.load import read
from lakestreams.config.models import SourcesFile, TopicSpec
from lakestreams.config.schema import SCHEMAS, schema_text
from lakestreams.config.validate import validate
from lakestreams.deploy.read import FILE
from lakestreams.deploy.template import job_text
from lakestreams.errors import ConfigInvalid, ConfigUnreadable, InvalidName, ProjectExists, TopologyInvalid

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,60}")
_SAMPLES: Final[dict[str, Any]] = {"string": "a", "int": 1, "bigint": 1, "smallint": 1, "tinyint": 1, "boolean": True}
_UUID: Final = "00000000-0000-0000-0000-000000000001"

_YAML: Final = """\
# yaml-language-server: $schema=schema/pipeline.json
# Say here what it is for.
pipeline: {name}

steps:
  kept:
    filter: {{from: {source}, where: {column} is not null}}

outputs:
  silver.{name}: {{from: kept}}
"""
_POINTER: Final = """\
# yaml-language-server: $schema=schema/pipeline.json
# The pipeline is declared in {name}.py, next to this file.
pipeline: {name}
topology: {name}:build
"""
_PYTHON: Final = '''\
"""Say here what it is for. {name}.yml names this function."""

from lakestreams import {formats}, StreamsBuilder


def build(builder: StreamsBuilder) -> None:
    """Declares the pipeline."""
    records = builder.{kind}({topic}, key={key}, value={value}, name={source})
    records.filter(lambda record: record[{column}].isNotNull(), name="kept").to_delta("silver.{name}")
'''
_CASES: Final = """\
# yaml-language-server: $schema=../../conf/schema/cases.json
# Run by: lakestreams test
pipeline: ../../conf/{name}.yml

cases:
  - name: a record with a key comes out
    given:
      - {{to: {source}, key: {given_key}, value: {given_value}, at: 1 s}}
    expect:
      silver.{name}:
        - {{key: {key}, value: {value}, at: 1 s}}
"""


@dataclass(frozen=True)
class Sample:
    """A record of a format: as a case gives it, and as columns."""

    sample: Any
    columns: dict[str, Any]


def add(root: Path, name: str, *, python: bool) -> list[Path]:
    """Writes the pipeline, its case, and in a bundle its job; returns the paths of the files.

    Args:
        root: the project's folder.
        name: the pipeline's, and the files'.
        python: whether it is declared in Python.

    Raises:
        InvalidName: for a name that files, tables and modules cannot carry.
        ProjectExists: if one of the files is there.
        ConfigUnreadable, TopologyInvalid, ConfigInvalid: without a file of sources, or with one that is of no use.
    """
    if not _NAME.fullmatch(name):
        raise InvalidName(f"the pipeline's name {name!r}", hint="letters, digits and _, beginning with a letter")
    if not isinstance(yaml.safe_load(name), str):  # it is a key and a value of YAML files
        raise InvalidName(f"the pipeline's name {name!r}", hint="a word that YAML does not read as something else")
    texts = _texts(root, name, python=python)
    if (root / FILE).is_file():
        texts[Path("resources", f"{name}.job.yml")] = job_text(name)
    there = [path for path in texts if (root / path).exists()]
    if there:
        raise ProjectExists(f"the file {there[0]} is there already", hint="choose another name, or remove the file")
    for part in SCHEMAS:
        schema = Path("conf", "schema", f"{part}.json")
        if not (root / schema).exists():
            texts[schema] = schema_text(part)
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return sorted(texts)


def _texts(root: Path, name: str, *, python: bool) -> dict[Path, str]:
    source, topic = _source(root / "conf" / "sources.yml")
    key, value = _sample(topic.key), _sample(topic.value, topic.event_time.field if topic.event_time else None)
    column = next(iter(key.columns))
    only = len(key.columns) == 1
    values = {
        "name": name,
        "source": source,
        "column": column,
        "given_key": json.dumps(key.sample),
        "given_value": json.dumps(value.sample),
        "key": json.dumps(key.columns[column] if only else key.columns),
        "value": json.dumps(value.columns),
    }
    conf, cases = Path("conf"), Path("tests", "cases", f"{name}.yml")
    if not python:
        return {conf / f"{name}.yml": _YAML.format_map(values), cases: _CASES.format_map(values)}
    formats = {side: spec.build() for side, spec in (("key", topic.key), ("value", topic.value))}
    code = {
        "name": name,
        "kind": topic.kind,
        "topic": json.dumps(topic.topic or source),
        "source": json.dumps(source),
        "column": json.dumps(column),
        "key": _in_python(topic.key),
        "value": _in_python(topic.value),
        "formats": ", ".join(sorted({type(one).__name__ for one in formats.values()})),
    }
    return {
        conf / f"{name}.yml": _POINTER.format_map(values),
        conf / f"{name}.py": _PYTHON.format_map(code),
        cases: _CASES.format_map(values),
    }


def _source(path: Path) -> tuple[str, TopicSpec]:
    """The first stream of a topic, or table, of which a record can be made up."""
    if not path.is_file():
        message = f"there is no file {path}"
        raise ConfigUnreadable(message, hint="go to a project's folder; lakestreams init FOLDER writes one")
    document = read(path, keep=frozenset({("kafka",), ("registry",)}))
    schema_files.put_in(document)
    file, _ = validate(SourcesFile, document)
    if file is None or document.faults:
        raise TopologyInvalid(document.faults)
    for kind in ("stream", "table"):
        for name, topic in file.topics.items():
            own_time = topic.event_time is None or topic.event_time.fallback
            if (
                topic.kind == kind
                and topic.delta is None
                and own_time
                and None not in _sample(topic.key).columns.values()
                and _is_whole(topic.value)
            ):
                return name, topic
    message = "no topic has a key of texts or whole numbers, which a first case could give"
    raise ConfigInvalid(message, hint="add a topic with such a key, or write the pipeline by hand", where=str(path))


def _sample(spec: FormatSpec, left_out: str | None = None) -> Sample:
    """A record of a format; a column is null where it is left out, or of a type with many spellings."""
    fields = spec.build().fields
    columns = {one.name: None if one.name == left_out else _SAMPLES.get(one.type.lower()) for one in fields}
    if spec.uuid is not None:
        columns = dict.fromkeys(columns, _UUID)
    given = columns if spec.chosen in OF_COLUMNS else next(iter(columns.values()))
    return Sample(given, columns)


def _is_whole(spec: FormatSpec) -> bool:
    """Whether a record can be made up: each column that may not be null has a sample."""
    columns = _sample(spec).columns
    return all(columns[one.name] is not None for one in spec.build().fields if one.required)


def _in_python(spec: FormatSpec) -> str:
    """A format as Python declares it."""
    made = type(spec.build()).__name__
    more = "".join(f", {name}={given!r}" for name, given in spec.options.items())
    return f"{made}({json.dumps(spec.said, ensure_ascii=False)}{more})"
