"""From a pipeline's two files to its topology: the same builder and handles that a Python topology uses."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakestreams.config import kafka, models
from lakestreams.config.expressions import Expression, compile_expression
from lakestreams.config.kafka import KafkaOptions
from lakestreams.config.load import Document, KeyPath, read, validate
from lakestreams.config.python import topology_of
from lakestreams.errors import (
    ConfigInvalid,
    DuplicateName,
    KafkaOptionRefused,
    LakestreamsError,
    TopologyInvalid,
    UnknownReference,
    unfold,
)
from lakestreams.formats.time import EventTime
from lakestreams.topology.builder import StreamsBuilder, Topology
from lakestreams.topology.durations import to_ms
from lakestreams.topology.nodes import Source
from lakestreams.topology.streams import KStream
from lakestreams.topology.tables import KTable

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields

_SETTINGS: Final = models.SettingsSpec()
_KEPT: Final[frozenset[KeyPath]] = frozenset({("kafka", "options")})


@dataclass(frozen=True)
class Settings:
    """How much a cycle takes in, and when it stops.

    Attributes:
        max_offsets_per_trigger: records that one ingest takes from Kafka at most.
        max_bad_share: share of unreadable records of a source (0 to 1) at which a run stops.
        snapshot_every: cycles between two snapshots of a table's state.
    """

    max_offsets_per_trigger: int = _SETTINGS.max_offsets_per_trigger
    max_bad_share: float = _SETTINGS.max_bad_share
    snapshot_every: int = _SETTINGS.snapshot_every


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as its files declare it, checked as far as that goes without Spark and Kafka.

    Attributes:
        topology: equal to that of the same declarations in Python, but for the functions in it.
        kafka: how Kafka is reached; holds references to secrets, never a secret.
        settings: how much a cycle takes in, and when it stops.
        text: canonical text of both files, for the ledger's fingerprint: no comments or spacing, keys sorted,
            environment references resolved, but for the part about Kafka, which stays as written and hence free of
            secrets (and the same when a local broker comes up at another port).
        path, sources_path: the two files.
    """

    topology: Topology
    kafka: KafkaOptions
    settings: Settings
    text: str = field(repr=False)
    path: Path
    sources_path: Path


@dataclass(frozen=True)
class Projection:
    """The mapper or joiner that a `select` of a file becomes; equal for equal expressions.

    Attributes:
        columns: name and expression of each column that comes out.
        sides: the names of the inputs, in the order in which their fields are given.
    """

    columns: tuple[tuple[str, Expression], ...]
    sides: tuple[str, ...]

    def __call__(self, *fields: Fields) -> Mapping[str, Column]:
        """The columns over the given inputs.

        Raises:
            TopologyInvalid: with the faults of all columns (one alone is raised as itself).
        """
        sides = dict(zip(self.sides, fields, strict=True))
        faults: list[LakestreamsError] = []
        found: dict[str, Column] = {}
        for name, expression in self.columns:
            try:
                found[name] = expression.column(sides)
            except LakestreamsError as fault:
                faults.extend(unfold(fault))
        _raise(faults)
        return found


@dataclass(frozen=True)
class Condition:
    """The predicate that a `where` of a file becomes; equal for equal expressions."""

    expression: Expression
    side: str

    def __call__(self, fields: Fields) -> Column:
        """The boolean column over the input."""
        return self.expression.column({self.side: fields})


def load_pipeline(path: str | Path, sources_path: str | Path | None = None) -> Pipeline:
    """Reads, checks and compiles a pipeline. Starts nothing.

    Args:
        path: the pipeline's file, such as `conf/enrichment.yml`.
        sources_path: the file of Kafka and the topics; by default `sources.yml` beside the pipeline's file.

    Raises:
        TopologyInvalid: with every fault of both files, each with file, line and step.
    """
    path = Path(path)
    sources_path = Path(sources_path) if sources_path is not None else path.with_name("sources.yml")
    faults: list[LakestreamsError] = []
    documents = [_read(file, faults) for file in (sources_path, path)]
    if any(document is None for document in documents):
        raise TopologyInvalid(faults)
    sources, pipeline = (document for document in documents if document is not None)
    sources_file, sources_broken = validate(models.SourcesFile, sources)
    pipeline_file, pipeline_broken = validate(models.PipelineFile, pipeline)
    faults.extend(_kafka_faults(sources))
    compiler = _Compiler(sources, sources_file, sources_broken, pipeline, pipeline_file, pipeline_broken)
    topology = compiler.topology() if pipeline_file is not None else None
    faults = _in_order([*faults, *sources.faults, *pipeline.faults])
    name = str(pipeline.data.get("pipeline") or "")
    if faults or topology is None or sources_file is None or pipeline_file is None:
        raise TopologyInvalid(faults, name)
    return Pipeline(
        topology=topology,
        kafka=KafkaOptions(sources_file.kafka.bootstrap_servers, _options(sources.data)),
        settings=Settings(**pipeline_file.settings.model_dump()),
        text=_canonical(sources, pipeline),
        path=path,
        sources_path=sources_path,
    )


def _read(path: Path, faults: list[LakestreamsError]) -> Document | None:
    try:
        return read(path, keep=_KEPT)
    except LakestreamsError as fault:
        faults.append(fault)
        return None


def _in_order(faults: list[LakestreamsError]) -> list[LakestreamsError]:
    """By file and line, each once."""

    def place(fault: LakestreamsError) -> tuple[str, int]:
        file, _, rest = (fault.where or "").partition(":")
        line = re.match(r"\d+", rest)
        return file, int(line[0]) if line else 0

    unique = {(type(fault), fault.message, fault.where): fault for fault in faults}
    return sorted(unique.values(), key=place)


def _raise(faults: list[LakestreamsError]) -> None:
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise TopologyInvalid(faults)


def _canonical(sources: Document, pipeline: Document) -> str:
    content = {
        "pipeline": pipeline.data,
        "sources": {**sources.data, "kafka": sources.written.get("kafka")},
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# --- Kafka's options -----------------------------------------------------------------------------------------------


def _options(data: Mapping[str, Any]) -> dict[str, str]:
    """The options as Kafka writes them; values that are no plain values are left to the model's faults."""
    section = data.get("kafka")
    options = section.get("options") if isinstance(section, Mapping) else None
    if not isinstance(options, Mapping):
        return {}
    plain = {str(name): value for name, value in options.items() if isinstance(value, str | int | bool)}
    return {name: models.json_text(value) for name, value in plain.items()}


def _kafka_faults(sources: Document) -> Iterator[LakestreamsError]:
    """The faults of the options, one by one, each with its line."""
    section = sources.data.get("kafka")
    servers = section.get("bootstrap_servers") if isinstance(section, Mapping) else None
    if isinstance(servers, str) and "${" not in servers:
        yield from _placed(kafka.server_faults(servers), sources, ("kafka", "bootstrap_servers"))
    for name, value in _options(sources.data).items():
        yield from _placed(kafka.option_faults(name, value), sources, ("kafka", "options", name))


def _placed(faults: list[LakestreamsError], document: Document, path: KeyPath) -> Iterator[LakestreamsError]:
    for fault in faults:
        # the option's name is part of the message already
        yield KafkaOptionRefused(fault.message, hint=fault.hint, where=document.where(path).split("  ")[0])


# --- steps ---------------------------------------------------------------------------------------------------------


class _Compiler:
    """Walks a pipeline's steps and declares them on a builder, noting faults in the documents."""

    def __init__(
        self,
        sources: Document,
        sources_file: models.SourcesFile | None,
        sources_broken: frozenset[KeyPath],
        pipeline: Document,
        pipeline_file: models.PipelineFile | None,
        pipeline_broken: frozenset[KeyPath],
    ) -> None:
        self._sources = sources
        self._pipeline = pipeline
        self._topics = dict(sources_file.topics) if sources_file is not None else {}
        self._file = pipeline_file
        # whatever was left out, by name: a reference to it is no fault of its own
        self._left_out = {str(path[1]) for path in sources_broken | pipeline_broken if len(path) > 1}
        if sources_file is None:
            declared = sources.data.get("topics")
            self._left_out.update(map(str, declared if isinstance(declared, Mapping) else ()))
        self._sources_known = sources_file is not None or bool(self._left_out)
        self._handles: dict[str, KStream | KTable] = {}

    def topology(self) -> Topology | None:
        """The topology; None if a fault is in the way."""
        file = self._file
        if file is None:
            return None
        if file.topology is not None:
            return self._from_python(file.pipeline, file.topology)
        builder = StreamsBuilder(file.pipeline)
        steps, outputs = dict(file.steps or {}), dict(file.outputs or {})
        self._check_names(steps)
        self._check_references(steps, outputs)
        order = self._ordered(steps)
        for name in self._used_sources(order, steps, outputs):
            self._declare_source(builder, name)
        for name in order:
            self._declare_step(name, steps[name])
        for name, output in outputs.items():
            self._declare_output(name, output)
        # a topic that nothing uses is checked too, on a builder that is thrown away
        for name in self._topics.keys() - self._handles.keys():
            self._declare_source(StreamsBuilder(file.pipeline), name)
        return self._build(builder)

    def _build(self, builder: StreamsBuilder) -> Topology | None:
        if self._sources.faults or self._pipeline.faults:
            return None
        try:
            return builder.build()
        except TopologyInvalid as invalid:
            for fault in invalid.faults:
                fault.where = self._found(fault.where) or self._pipeline.where()
                self._pipeline.faults.append(fault)
        return None

    def _found(self, where: str | None) -> str | None:
        """The place in the files of a node that a fault of the builder names."""
        name = re.search(r'"([^"]+)"', where or "")
        if name is None:
            return None
        for document, part in ((self._sources, "topics"), (self._pipeline, "steps"), (self._pipeline, "outputs")):
            if (part, name[1]) in document.lines:
                return document.where((part, name[1]))
        return None

    def _fault(self, kind: type[LakestreamsError], message: str, path: KeyPath, hint: str | None = None) -> None:
        self._pipeline.faults.append(kind(message, hint=hint, where=self._pipeline.where(path)))

    # references

    def _check_names(self, steps: dict[str, models.StepSpec]) -> None:
        """Leaves steps out that have a source's name, so that references mean the source."""
        for name in self._topics.keys() & steps.keys():
            self._fault(DuplicateName, f"a source has the name {name!r}, too", ("steps", name))
            del steps[name]

    def _check_references(self, steps: Mapping[str, models.StepSpec], outputs: Mapping[str, models.OutputSpec]) -> None:
        for step, spec in steps.items():
            for key, name in spec.inputs:
                self._check_reference(name, ("steps", step, *key.split(".")), steps)
        for output, target in outputs.items():
            self._check_reference(target.from_, ("outputs", output, "from"), steps)

    def _check_reference(self, name: str, path: KeyPath, steps: Mapping[str, models.StepSpec]) -> None:
        if not self._sources_known or name in self._topics or name in steps or name in self._left_out:
            return
        known = [*self._topics, *(step for step in steps if step != path[1])]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        key = ".".join(map(str, path[2:]))
        self._fault(UnknownReference, f"{key} refers to {name!r}, which is neither a source nor a step", path,
                    hint=f"{hint}there are: {', '.join(known)}")  # fmt: skip

    def _ordered(self, steps: Mapping[str, models.StepSpec]) -> list[str]:
        """The steps, inputs first, otherwise as they are declared; those of a cycle are left out, and a fault."""
        needs = {name: {ref for _, ref in spec.inputs if ref in steps} for name, spec in steps.items()}
        order: list[str] = []
        while len(order) < len(steps):
            ready = next((name for name in steps if name not in order and needs[name] <= set(order)), None)
            if ready is None:
                break
            order.append(ready)
        stuck = {name: needs[name] for name in steps if name not in order}
        cycle = _cycle(stuck)
        if cycle:
            message = f"the steps feed each other in a circle: {' -> '.join(cycle)}"
            self._fault(ConfigInvalid, message, ("steps", cycle[0]), hint="let one of them read from a source")
        self._left_out.update(stuck)
        return order

    def _used_sources(
        self, order: list[str], steps: Mapping[str, models.StepSpec], outputs: Mapping[str, models.OutputSpec]
    ) -> list[str]:
        """The sources that steps and outputs use, in the order of their first use."""
        names = [name for step in order for _, name in steps[step].inputs] + [
            output.from_ for output in outputs.values()
        ]
        return [name for name in dict.fromkeys(names) if name in self._topics and name not in steps]

    # declarations

    def _declare_source(self, builder: StreamsBuilder, name: str) -> None:
        spec = self._topics[name]
        path: KeyPath = ("topics", name)
        formats = {}
        for side, given in (("key", spec.key), ("value", spec.value)):
            try:
                formats[side] = given.build()
            except LakestreamsError as fault:
                fault.where = self._sources.where((*path, side))
                self._sources.faults.append(fault)
        try:
            to_ms(spec.max_future, "max_future")
            if len(formats) < 2:
                return
            event_time = EventTime(spec.event_time.field, spec.event_time.fallback) if spec.event_time else None
            topic = spec.topic or name
            if spec.kind == "table":
                self._handles[name] = builder.table(
                    topic, key=formats["key"], value=formats["value"], name=name, event_time=event_time,
                    max_future=spec.max_future,
                )  # fmt: skip
            else:
                self._handles[name] = builder.stream(
                    topic, key=formats["key"], value=formats["value"], name=name, event_time=event_time,
                    max_future=spec.max_future, null_values=spec.null_values or Source.null_values,
                    keys_not_null=spec.expectations.keys_not_null if spec.expectations else Source.keys_not_null,
                )  # fmt: skip
        except LakestreamsError as fault:
            fault.where = self._sources.where((*path, "max_future"))
            self._sources.faults.append(fault)

    def _declare_step(self, name: str, spec: models.StepSpec) -> None:
        path: KeyPath = ("steps", name)
        if spec.join is not None or spec.left_join is not None:
            self._declare_join(name, spec)
        elif spec.filter is not None:
            where = self._expression(spec.filter.where, (*path, "filter", "where"))
            handle = self._handles.get(spec.filter.from_)
            if handle is not None and where is not None:
                self._handles[name] = handle.filter(Condition(where, spec.filter.from_), name=name)
        elif spec.map_values is not None:
            mapper = self._projection(spec.map_values.select, (spec.map_values.from_,), (*path, "map_values", "select"))
            handle = self._handles.get(spec.map_values.from_)
            if handle is not None and mapper is not None:
                self._handles[name] = handle.map_values(mapper, name=name)
        elif spec.select_key is not None:
            mapper = self._projection(spec.select_key.select, (spec.select_key.from_,), (*path, "select_key", "select"))
            stream = self._stream(spec.select_key.from_, (*path, "select_key", "from"), "select_key takes a stream")
            if stream is not None and mapper is not None:
                self._handles[name] = stream.select_key(mapper, name=name)

    def _declare_join(self, name: str, spec: models.StepSpec) -> None:
        verb = "join" if spec.join is not None else "left_join"
        join = spec.join or spec.left_join
        if join is None:
            return
        path: KeyPath = ("steps", name)
        joiner = self._projection(spec.select, (join.left, join.right), (*path, "select")) if spec.select else None
        left = self._stream(join.left, (*path, verb, "left"), "the left side of a join is a stream")
        right = self._handles.get(join.right)
        if isinstance(right, KStream):
            message = f"right is {join.right!r}, a stream; the right side of {verb} is a table"
            hint = "kind: table in the sources' file reads a topic as a table"
            self._fault(ConfigInvalid, message, (*path, verb, "right"), hint=hint)
            return
        if left is None or right is None or (spec.select and joiner is None):
            return
        declare = left.join if verb == "join" else left.left_join
        self._handles[name] = declare(right, joiner, name=name, co_partitioning=join.co_partitioning)

    def _declare_output(self, name: str, spec: models.OutputSpec) -> None:
        stream = self._stream(spec.from_, ("outputs", name, "from"), "an output takes a stream")
        if stream is not None:
            stream.to_delta(name, cluster_by=spec.cluster_by, partition_by=spec.partition_by)

    def _stream(self, name: str, path: KeyPath, rule: str) -> KStream | None:
        handle = self._handles.get(name)
        if isinstance(handle, KTable):
            self._fault(ConfigInvalid, f"{path[-1]} is {name!r}, a table; {rule}", path, hint="refer to a stream")
            return None
        return handle

    def _projection(self, select: Mapping[str, str], sides: tuple[str, ...], path: KeyPath) -> Projection | None:
        compiled = [(name, self._expression(text, (*path, name))) for name, text in select.items()]
        columns = tuple((name, expression) for name, expression in compiled if expression is not None)
        return Projection(columns, sides) if len(columns) == len(compiled) else None

    def _expression(self, text: str, path: KeyPath) -> Expression | None:
        place = f"{self._pipeline.where(path)}  {'.'.join(map(str, path[2:]))}"
        try:
            return compile_expression(text, place)
        except LakestreamsError as fault:
            self._pipeline.faults.append(fault)
            return None

    # a topology in Python

    def _from_python(self, pipeline: str, reference: str) -> Topology | None:
        path: KeyPath = ("topology",)
        for name in self._topics:
            self._declare_source(StreamsBuilder(pipeline), name)
        return topology_of(reference, self._pipeline, path, pipeline)


def _cycle(needs: Mapping[str, set[str]]) -> list[str]:
    """One circle among steps that wait for each other, its first name once more at the end."""
    waiting = {name: [ref for ref in refs if ref in needs] for name, refs in needs.items()}
    if not waiting:
        return []
    walk = [next(iter(waiting))]
    while True:
        step = min(waiting[walk[-1]])
        if step in walk:
            return [*walk[walk.index(step) :], step]
        walk.append(step)
