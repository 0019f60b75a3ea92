"""The two configuration files as types: what `conf/sources.yml` and a pipeline's file may say.

The choices come from the topology's own types, so that file, Python and messages cannot drift apart. JSON Schemas for
editors are generated from here (`python -m lakestreams.config.schema`). What a step may say stands in `verbs`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lakestreams.config.expected import WithExpectations
from lakestreams.config.formats import FormatSpec
from lakestreams.config.parts import Duration, Model, Name, Size, Sql
from lakestreams.config.steps import STEP
from lakestreams.topology.endpoints import Source
from lakestreams.topology.kinds import (
    ExpectationAction,
    NullValues,
    Settling,
    SinkKind,
    SinkMode,
    SourceKind,
    TableChanges,
)


class EventTimeSpec(Model):
    """Where the event time comes from."""

    field: Name = Field(
        description="A column of the value: bigint (ms since the epoch) or timestamp; other units as timestamp_s or timestamp_us."
    )
    fallback: bool = Field(
        default=True, description="Whether the record's own timestamp is used if the field is unusable."
    )


def _event_time(value: object) -> object:
    return {"field": value} if isinstance(value, str) else value


class ExpectationsSpec(Model):
    """Expectations of a stream's records, and what happens to records that violate them."""

    keys_not_null: ExpectationAction = Field(
        default=Source.keys_not_null, description="What happens to records without a key."
    )


class TopicSpec(WithExpectations):
    """A topic, or a Delta table, as a stream, as a table or as a global table."""

    kind: SourceKind = Field(
        description="stream: records are events; table: records are rows of their keys; global_table: a table that every "
        "task holds whole."
    )
    topic: Name | None = Field(default=None, description="The Kafka topic; by default the source's name.")
    delta: Sql | None = Field(
        default=None,
        description="A Delta table instead of a topic: catalog.schema.table, schema.table, or a path.",
    )
    bronze: Name | None = Field(
        default=None,
        description="The name of its bronze table after the pipeline's name; by default the topic's.",
    )
    changes: TableChanges | None = Field(
        default=None,
        description="Of a Delta table read as a table: cdf (the default) reads its change data feed; snapshot compares the "
        "table with what was read before.",
    )
    ignore_changes: bool | None = Field(
        default=None,
        description="Of a Delta table read as a stream: whether updates and deletes are ignored; by default they end the run.",
    )
    key: FormatSpec = Field(description="How the key's bytes are read; for a Delta table its columns, as 'id bigint'.")
    value: FormatSpec = Field(description="How the value's bytes are read; for a Delta table its columns.")
    event_time: (
        Annotated[EventTimeSpec, BeforeValidator(_event_time, json_schema_input_type=str | EventTimeSpec)] | None
    ) = Field(
        default=None,
        description="A column of the value. The fallback, and the default, is the record's own timestamp, or the commit's "
        "for a Delta table.",
    )
    max_future: Duration = Field(
        default="1 day", description="Records dated further past their ingest go to quarantine."
    )
    history: Duration | None = Field(
        default=None,
        description="How long a table's earlier rows are kept. It is then versioned: streams meet the row that was valid "
        "at their own time.",
    )
    null_values: NullValues | None = Field(
        default=None, description="What happens to a stream's null values; quarantine by default."
    )
    expectations: ExpectationsSpec | None = Field(default=None, description="Expectations of a stream's records.")

    @model_validator(mode="after")
    def _of_its_kind(self) -> TopicSpec:
        stream_keys = [name for name in ("null_values", "expectations") if getattr(self, name) is not None]
        if self.kind != "stream" and stream_keys:
            msg = (
                f"{' and '.join(stream_keys)}: a table has none (a null value deletes a row, a null key is quarantined)"
            )
            raise ValueError(msg)
        if self.kind != "table" and self.history is not None:
            msg = f"history: a {self.kind.replace('_', ' ')} has none; only kind: table can be versioned"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _of_its_origin(self) -> TopicSpec:
        tables = [name for name in ("changes", "ignore_changes") if getattr(self, name) is not None]
        if self.delta is None and tables:
            msg = f"{' and '.join(tables)}: only a Delta table has them; delta: names it"
            raise ValueError(msg)
        if self.delta is not None and self.topic is not None:
            msg = "topic and delta exclude each other"
            raise ValueError(msg)
        unfit = "changes" if self.kind == "stream" else "ignore_changes"
        if getattr(self, unfit) is not None:
            words = "a stream takes the rows that are appended" if self.kind == "stream" else "only a stream has it"
            msg = f"{unfit}: {words}"
            raise ValueError(msg)
        return self

    @field_validator("key", "value", mode="before", json_schema_input_type=str | FormatSpec)
    @classmethod
    def _columns(cls, value: object, info: ValidationInfo) -> object:
        """Columns of a Delta table may stand without their key."""
        return {"columns": value} if isinstance(value, str) and info.data.get("delta") is not None else value

    @field_validator("key", "value")
    @classmethod
    def _fits_its_origin(cls, spec: FormatSpec, info: ValidationInfo) -> FormatSpec:
        of_table = info.data.get("delta") is not None
        if (spec.columns is not None) != of_table:
            good = (
                "a Delta table has columns, such as 'id bigint'" if of_table else "columns are those of a Delta table"
            )
            raise ValueError(good)
        return spec


class KafkaSpec(Model):
    """How Kafka is reached."""

    bootstrap_servers: Sql = Field(description="host:port, several joined by commas.")
    options: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Client options by Kafka's names; secrets as secret://scope/key or ${NAME} (docs/kafka-options.md).",
    )
    service_credential: str | None = Field(
        default=None,
        description="On Databricks: the Unity Catalog service credential to sign in with, instead of security.protocol "
        "and sasl.* options.",
    )
    service_credential_scope: str | None = Field(
        default=None, description="The OAuth scope that it asks for, if Databricks cannot infer it."
    )


class RegistrySpec(Model):
    """How the schema registry is reached."""

    url: str = Field(
        description="http(s)://host:port, with the path of its Confluent-compatible interface if it has one."
    )
    options: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Options by the names of Confluent's clients; secrets as secret://scope/key or ${NAME} (docs/formats.md).",
    )


class SourcesFile(Model):
    """conf/sources.yml: Kafka, its topics, and Delta tables to read, once for all pipelines."""

    kafka: KafkaSpec | None = Field(default=None, description="How Kafka is reached; not needed if no topic is read.")
    registry: RegistrySpec | None = Field(
        default=None,
        description="How the schema registry is reached; needed by registry_avro, debezium_avro, json_schema and registry_protobuf only.",
    )
    topics: dict[Name, TopicSpec] = Field(
        default={}, description="Sources by name, for pipelines in YAML; a topology in Python declares its own."
    )


class SettingsSpec(Model):
    """How much a cycle takes in, when it stops, and how long bronze keeps records."""

    max_offsets_per_trigger: int = Field(
        default=1_000_000, ge=1, description="Records that one ingest takes from Kafka at most."
    )
    max_bytes_per_batch: Size = Field(
        default=256 << 20,
        description="About how many bytes one ingest takes from Kafka, such as 256 MB (the default): fewer records if they are large.",
    )
    max_bad_share: float = Field(
        default=0.05, ge=0, le=1, description="The share of unreadable records of a source at which a run stops."
    )
    snapshot_every: int = Field(default=16, ge=1, description="Cycles between two snapshots of a table's state.")
    settling: Settling = Field(
        default="caught_up",
        description="How far a cycle reads. caught_up: a partition holds the others back until it is read to its end. "
        "event_time: it always does, and newer records wait for the next run.",
    )
    idle_timeout: Duration | None = Field(
        default=None,
        description="How long an input must be idle before its clock moves without records, so that waiting rows come out.",
    )
    bronze_retention: Duration | None = Field(
        default=None,
        description="How long bronze keeps records after their ingest; `lakestreams maintain` trims older ones. An hour or "
        "more, or 0 s for all that no job needs. Forever by default.",
    )


_OF_TABLES: Final = ("mode", "change_feed", "cluster_by", "partition_by")
_OF_TOPICS: Final = ("key", "value")


class OutputSpec(WithExpectations):
    """A Delta table, or a Kafka topic, that a stream or a table is written to."""

    from_: Name = Field(alias="from", description="A stream or a table: a source or a step.")
    to: SinkKind = Field(
        default="delta",
        description="delta: the output's name is that of a Delta table, written exactly once; kafka: that of a topic, "
        "written at least once.",
    )
    key: FormatSpec | None = Field(
        default=None,
        description="Of a topic: how the key's bytes are written: text, long or json; by default JSON of all columns.",
    )
    value: FormatSpec | None = Field(default=None, description="Of a topic: the same of the value.")
    mode: SinkMode | None = Field(
        default=None,
        description="Of a stream: append (the default) or, after a join with amend, merge (one row per record, its last "
        "result). Of a table: merge (one row per key, the default) or changes (its changelog).",
    )
    change_feed: bool = Field(default=False, description="Of a table: whether Delta keeps a change data feed.")
    cluster_by: tuple[Name, ...] = Field(default=(), description="Columns for liquid clustering.")
    partition_by: tuple[Name, ...] = Field(
        default=(), description="Columns for partitions; not together with cluster_by."
    )

    @model_validator(mode="after")
    def _of_its_kind(self) -> OutputSpec:
        others = _OF_TABLES if self.to == "kafka" else _OF_TOPICS
        unfit = [name for name in others if name in self.model_fields_set]
        if unfit:
            has = f"a topic has {' and '.join(_OF_TOPICS)}" if self.to == "kafka" else "only a topic has it: to: kafka"
            msg = f"{' and '.join(unfit)}: {has}"
            raise ValueError(msg)
        return self


class PipelineFile(Model):
    """One pipeline: its steps and outputs, or the Python function that declares them."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["outputs"]}, {"required": ["topology"]}]},
    )

    pipeline: Name = Field(description="Its name, in tables and in the ledger.")
    settings: SettingsSpec = SettingsSpec()
    steps: dict[Name, STEP] | None = Field(  # type: ignore[valid-type]
        default=None, description="Step names with what they do, in any order."
    )
    outputs: dict[Name, OutputSpec] | None = Field(
        default=None, description="Names of tables and topics with the stream or table that is written to them."
    )
    topology: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")] | None = (
        Field(
            default=None,
            description="module:function of a Python topology, instead of steps and outputs; found in the folder of this file, or installed.",
        )
    )

    @model_validator(mode="after")
    def _one_way(self) -> PipelineFile:
        declared = [name for name in ("steps", "outputs") if getattr(self, name) is not None]
        if self.topology is not None and declared:
            msg = f"topology names a Python function, so it takes the place of {' and '.join(declared)}"
            raise ValueError(msg)
        if self.topology is None and self.outputs is None:
            msg = "a pipeline has outputs (and steps), or topology: module:function"
            raise ValueError(msg)
        return self


def json_text(value: Any) -> str:
    """A Kafka option's value as Kafka writes it: true and 60000 rather than True and 60_000."""
    return str(value).lower() if isinstance(value, bool) else str(value)
