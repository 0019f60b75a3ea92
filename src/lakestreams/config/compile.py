"""From a pipeline's two files to its topology: the same builder and handles that a Python topology uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakestreams.api.builder import StreamsBuilder
from lakestreams.config import models, schema_files
from lakestreams.config.groups import REKEYED
from lakestreams.config.kafka import kafka_faults, kafka_of, without_kafka
from lakestreams.config.load import Document, KeyPath, read
from lakestreams.config.outputs import declare_output
from lakestreams.config.python import topology_of
from lakestreams.config.references import check_references, ordered, used_sources, without_sources_names
from lakestreams.config.registry import AS_WRITTEN, registry_of, without_registry
from lakestreams.config.scope import AnyHandle
from lakestreams.config.steps import declare_step
from lakestreams.config.topics import declare_topic
from lakestreams.config.validate import validate
from lakestreams.config.wording import placed
from lakestreams.errors import LakestreamsError, NoOutput, TopologyInvalid
from lakestreams.errors.places import FilePlace
from lakestreams.expressions.environment import References
from lakestreams.kafka.options import KafkaOptions
from lakestreams.registry.options import RegistryOptions
from lakestreams.topology.durations import retention_ms, to_ms
from lakestreams.topology.topology import Topology

if TYPE_CHECKING:
    from lakestreams.topology.kinds import Settling

_SETTINGS: Final = models.SettingsSpec()
_DURATIONS: Final[Mapping[str, Callable[[str, str], int]]] = {"idle_timeout": to_ms, "bronze_retention": retention_ms}
_EXPECTED: Final = frozenset(("expect", "expect_or_drop", "expect_or_fail"))


@dataclass(frozen=True)
class Settings:
    """How much a cycle takes in, when it stops, and how long bronze keeps what it took.

    Attributes:
        max_offsets_per_trigger: records that one ingest takes from Kafka at most.
        max_bytes_per_batch: bytes that one ingest takes, about: fewer records where they are large.
        max_bad_share: share of unreadable records of a source (0 to 1) at which a run stops.
        snapshot_every: cycles between two snapshots of a table's state.
        settling: how far a cycle reads.
        idle_timeout_ms: how long an input must have been silent for its clock to go on by itself; None: for ever.
        bronze_retention_ms: how long bronze keeps records after they were ingested; None: for ever.
    """

    max_offsets_per_trigger: int = _SETTINGS.max_offsets_per_trigger
    max_bytes_per_batch: int = _SETTINGS.max_bytes_per_batch
    max_bad_share: float = _SETTINGS.max_bad_share
    snapshot_every: int = _SETTINGS.snapshot_every
    settling: Settling = _SETTINGS.settling
    idle_timeout_ms: int | None = None
    bronze_retention_ms: int | None = None


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as its files declare it, checked as far as that goes without Spark and Kafka.

    Attributes:
        topology: equal to that of the same declarations in Python, but for the functions in it.
        kafka: how Kafka is reached; holds references to secrets, never a secret.
        registry: how the schema registry is reached, likewise; None: there is none.
        settings: how much a cycle takes in, and when it stops.
        text: canonical text of both files, for the ledger: no comments or spacing, keys in the order of the files, which
            is that of the nodes (`recorded.topology` compiles it again); environment references resolved, but for SQL
            and the part about Kafka, which stay as written and hence free of secrets (and the same when a local broker
            comes up at another port). Of references in SQL it has digests of what they stand for.
        semantics: the part of it that results follow from: no settings, and of topics those that are read; keys sorted.
        path, sources_path: the two files.
        references: what the references in SQL stand for.
    """

    topology: Topology
    kafka: KafkaOptions
    settings: Settings
    text: str = field(repr=False)
    semantics: str = field(repr=False)
    path: Path
    sources_path: Path
    references: References = field(default_factory=References, repr=False, compare=False)
    registry: RegistryOptions | None = None


def load_pipeline(path: str | Path, sources_path: str | Path | None = None) -> Pipeline:
    """Reads, checks and compiles a pipeline. Starts nothing.

    Args:
        path: the pipeline's file, such as `conf/enrichment.yml`.
        sources_path: the file of Kafka and the topics; by default `sources.yml` in the pipeline's folder.

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
    sources_file, pipeline_file, topology = compiled(sources, pipeline)
    faults.extend(kafka_faults(sources))
    settings = _settings(pipeline_file.settings, pipeline) if pipeline_file is not None else Settings()
    faults.extend(without_kafka(topology, sources))
    faults.extend(without_registry(topology, sources))
    registry = registry_of(sources_file.registry if sources_file is not None else None, sources)
    faults = _in_order([*faults, *sources.faults, *pipeline.faults])
    name = str(pipeline.data.get("pipeline") or "")
    if faults or topology is None or sources_file is None or pipeline_file is None:
        raise TopologyInvalid(faults, name)
    return Pipeline(
        topology=topology,
        kafka=kafka_of(sources_file.kafka, sources),
        settings=settings,
        text=_canonical(sources, pipeline),
        semantics=_semantics(sources, pipeline, topology),
        path=path,
        sources_path=sources_path,
        references=_references(sources, pipeline),
        registry=registry,
    )


def compiled(
    sources: Document, pipeline: Document
) -> tuple[models.SourcesFile | None, models.PipelineFile | None, Topology | None]:
    """Two documents as models, and the topology that they declare; each is None where a fault is in the way.

    The faults are noted in the documents.
    """
    sources_file, sources_broken = validate(models.SourcesFile, sources)
    pipeline_file, pipeline_broken = validate(models.PipelineFile, pipeline)
    compiler = _Compiler(sources, sources_file, sources_broken, pipeline, pipeline_file, pipeline_broken)
    return sources_file, pipeline_file, compiler.topology()


def _settings(spec: models.SettingsSpec, document: Document) -> Settings:
    durations = {word: getattr(spec, word) for word in _DURATIONS}
    times: dict[str, int] = {}
    for word, text in durations.items():
        try:
            times |= {} if text is None else {f"{word}_ms": _DURATIONS[word](text, word)}
        except LakestreamsError as fault:
            document.faults.append(placed(fault, document, ("settings",)))
    return Settings(**spec.model_dump(exclude=set(durations)) | times)


def _read(path: Path, faults: list[LakestreamsError]) -> Document | None:
    try:
        document = read(path, keep=AS_WRITTEN, is_sql=is_sql)
    except LakestreamsError as fault:
        faults.append(fault)
        return None
    schema_files.put_in(document)
    return document


def is_sql(path: KeyPath) -> bool:
    """Whether a file has SQL at a path of keys."""
    if len(path) == 4 and path[0] in ("topics", "steps", "outputs") and path[2] in _EXPECTED:
        return True
    if path[0] != "steps" or len(path) < 4:
        return False
    if path[2] == "select":  # next to a join
        return len(path) == 4
    word, depth = path[3], len(path)
    if word in ("where", "each"):
        return depth == 4
    if word in ("group_by", "left_on", "right_on", "keep"):
        return depth == 5 and isinstance(path[4], str)  # names with SQL; a list has names alone
    return depth == 5 if word in ("select", "key", "value") else word == "columns" and depth == 6


def _in_order(faults: list[LakestreamsError]) -> list[LakestreamsError]:
    """By file and line, each once."""

    def place(fault: LakestreamsError) -> tuple[str, int]:
        where = fault.where
        return (where.file, where.line) if isinstance(where, FilePlace) else (where or "", 0)

    unique = {(type(fault), fault.message, fault.where): fault for fault in faults}
    return sorted(unique.values(), key=place)


def _canonical(sources: Document, pipeline: Document) -> str:
    content = {
        "pipeline": pipeline.data,
        "sources": {**sources.data, "kafka": sources.written.get("kafka")},
    }
    if "registry" in sources.written:
        content["sources"]["registry"] = sources.written["registry"]
    return _with_digests(content, _references(sources, pipeline), pipeline)


def _semantics(sources: Document, pipeline: Document, topology: Topology) -> str:
    topics = sources.data.get("topics", {})
    content = {
        "pipeline": {key: part for key, part in pipeline.data.items() if key != "settings"},
        "topics": {source.name: topics.get(source.name) for source in topology.sources},
    }
    return _with_digests(content, _references(sources, pipeline), pipeline, sort_keys=True)


def _references(sources: Document, pipeline: Document) -> References:
    return References({**sources.references.values, **pipeline.references.values})


def _with_digests(
    content: dict[str, Any], references: References, pipeline: Document, *, sort_keys: bool = False
) -> str:
    """The content as text, with digests of what the references in its SQL stand for: another value is another text."""
    text = _as_text(content, sort_keys=sort_keys)
    used = References({one: value for one, value in references.values.items() if _as_text(one)[1:-1] in text})
    if not used:
        return text
    digests = used.digests(str(pipeline.data.get("pipeline")))
    return _as_text({**content, "references": digests}, sort_keys=sort_keys)


def _as_text(content: object, *, sort_keys: bool = False) -> str:
    return json.dumps(content, sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"))


# --- the topology --------------------------------------------------------------------------------------------------


class _Compiler:
    """Declares sources, steps and outputs on a builder, noting faults in the documents."""

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
        self._handles: dict[str, AnyHandle] = {}

    def topology(self) -> Topology | None:
        """The topology; None if a fault is in the way."""
        file = self._file
        if file is None:
            return None
        if file.topology is not None:
            return self._from_python(file.pipeline, file.topology)
        builder = StreamsBuilder(file.pipeline)
        outputs = dict(file.outputs or {})
        steps = without_sources_names(file.steps or {}, self._topics, self._pipeline)
        if self._sources_known:
            check_references(steps, outputs, self._topics, self._left_out, self._pipeline)
        order = ordered(steps, self._pipeline)
        for name in used_sources(order, steps, outputs, self._topics):
            self._keep(name, declare_topic(builder, name, self._topics[name], self._sources))
        for name in order:
            self._keep(name, declare_step(name, steps[name], self._pipeline, self._handles))
        for name, output in outputs.items():
            declare_output(name, output, self._pipeline, self._handles)
        self._check_topics(file.pipeline)
        return self._build(builder)

    def _keep(self, name: str, handle: AnyHandle | None) -> None:
        if handle is not None:
            self._handles[name] = handle

    def _check_topics(self, pipeline: str) -> None:
        """Checks the topics that nothing uses, too, on a builder that is thrown away."""
        for name in [one for one in self._topics if one not in self._handles]:
            declare_topic(StreamsBuilder(pipeline), name, self._topics[name], self._sources)

    def _build(self, builder: StreamsBuilder) -> Topology | None:
        noted = bool(self._sources.faults or self._pipeline.faults)
        try:
            topology = builder.build()
        except TopologyInvalid as invalid:
            for fault in invalid.faults:
                # an output whose step has a fault is not missing
                if not (noted and isinstance(fault, NoOutput)):
                    self._place(fault)
            return None
        return None if noted else topology

    def _place(self, fault: LakestreamsError) -> None:
        """Notes a fault that names a node, in the file that the node comes from."""
        node = fault.node
        parts = [(self._sources, "topics"), (self._pipeline, "steps"), (self._pipeline, "outputs")]
        if node is not None and node.word in ("to_delta", "to_kafka"):  # its name may be a source's, too
            parts.reverse()
        names = [] if node is None else [node.name, node.name.removesuffix(REKEYED)]
        for name, (document, part) in product(names, parts):
            if (part, name) in document.lines:
                document.faults.append(placed(fault, document, (part, name)))
                return
        self._pipeline.faults.append(placed(fault, self._pipeline, ()))

    def _from_python(self, pipeline: str, reference: str) -> Topology | None:
        self._check_topics(pipeline)
        return topology_of(reference, self._pipeline, ("topology",), pipeline)
