"""The two configuration files as types: what `conf/sources.yml` and a pipeline's file may say.

The choices come from the topology's own types, so that file, Python and messages cannot drift apart. JSON Schemas for
editors are generated from here (`python -m lakestreams.config.schema`). What a step may say stands in `verbs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator

from lakestreams.config.parts import Duration, Model, Name, Sql, exactly_one
from lakestreams.config.verbs import StepSpec
from lakestreams.errors import InvalidDuration
from lakestreams.formats import ConnectJson, DebeziumJson, Json, Long, RegistryJson, Text
from lakestreams.formats.base import Format
from lakestreams.topology.durations import to_ms
from lakestreams.topology.nodes import ExpectationAction, NullValues, SinkMode, Source, SourceKind


class FormatSpec(Model):
    """How bytes are read: exactly one of the formats."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    text: Name | None = Field(default=None, description="UTF-8 text as one string column of this name.")
    long: Name | None = Field(default=None, description="Kafka's eight-byte long as one bigint column of this name.")
    json_: Sql | None = Field(
        default=None, alias="json", description="A JSON object with these columns, such as 'ms bigint, page string'."
    )
    registry_json: Sql | None = Field(default=None, description="The same behind a schema registry's five-byte prefix.")
    connect_json: Sql | None = Field(
        default=None, description="The same in the wrapper of Connect's JsonConverter: schema and payload."
    )
    debezium_json: Sql | None = Field(
        default=None,
        description="Of a table's value: the row of a Debezium change event, with or without that wrapper.",
    )

    @model_validator(mode="after")
    def _one(self) -> FormatSpec:
        exactly_one(self, tuple(_FORMATS), "a format")
        return self

    def build(self) -> Format:
        """The format itself.

        Raises:
            InvalidFormat: if the column name or the schema cannot be used.
        """
        name = next(name for name in _FORMATS if getattr(self, name) is not None)
        fmt = _FORMATS[name](getattr(self, name))
        fmt.fields  # noqa: B018 - a name that tables cannot carry is refused here, where its place is known
        return fmt


_FORMATS: Final[dict[str, Callable[[str], Format]]] = {
    "text": Text,
    "long": Long,
    "json_": Json,
    "registry_json": RegistryJson,
    "connect_json": ConnectJson,
    "debezium_json": DebeziumJson,
}


class EventTimeSpec(Model):
    """Where the event time comes from."""

    field: Name = Field(description="A column of the value: bigint (ms since the epoch) or timestamp.")
    fallback: bool = Field(
        default=True, description="Whether the record's own timestamp stands in where the field is unusable."
    )


def _event_time(given: object) -> object:
    return {"field": given} if isinstance(given, str) else given


class ExpectationsSpec(Model):
    """What is expected of a stream's records, and what happens to those that differ."""

    keys_not_null: ExpectationAction = Field(
        default=Source.keys_not_null, description="What happens to records without a key."
    )


class TopicSpec(Model):
    """A topic as a stream, as a table or as a global table."""

    kind: SourceKind = Field(
        description="stream: records are points; table: records are versions of their key; global_table: the same, held "
        "whole by every task."
    )
    topic: Name | None = Field(default=None, description="The Kafka topic; by default the source's name.")
    key: FormatSpec = Field(description="How the key's bytes are read.")
    value: FormatSpec = Field(description="How the value's bytes are read.")
    event_time: (
        Annotated[EventTimeSpec, BeforeValidator(_event_time, json_schema_input_type=str | EventTimeSpec)] | None
    ) = Field(
        default=None,
        description="A column of the value, with the record's own timestamp as fallback; by default the latter alone.",
    )
    max_future: Duration = Field(
        default="1 day", description="Records dated further past their ingest are quarantined."
    )
    history: Duration | None = Field(
        default=None,
        description="How far back a table's rows are kept: then it is versioned, and streams meet the row that was valid "
        "at their own time.",
    )
    null_values: NullValues | None = Field(
        default=None, description="What happens to a stream's null values; quarantine by default."
    )
    expectations: ExpectationsSpec | None = Field(default=None, description="Expectations of a stream's records.")

    @model_validator(mode="after")
    def _of_its_kind(self) -> TopicSpec:
        given = [name for name in ("null_values", "expectations") if getattr(self, name) is not None]
        if self.kind != "stream" and given:
            msg = f"{' and '.join(given)}: a table has none (a null value deletes a row, a null key is quarantined)"
            raise ValueError(msg)
        if self.kind != "table" and self.history is not None:
            msg = f"history: a {self.kind.replace('_', ' ')} has none; only kind: table can be versioned"
            raise ValueError(msg)
        return self


class KafkaSpec(Model):
    """How Kafka is reached."""

    bootstrap_servers: Sql = Field(description="host:port, several joined by commas.")
    options: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Consumer options by Kafka's names; secrets as secret://scope/key or ${NAME} (docs/kafka-options.md).",
    )


class SourcesFile(Model):
    """conf/sources.yml: Kafka and its topics, once for all pipelines."""

    kafka: KafkaSpec
    topics: Annotated[dict[Name, TopicSpec], Field(min_length=1)]


class SettingsSpec(Model):
    """How much a cycle takes in, when it stops, and how long bronze keeps what it took."""

    max_offsets_per_trigger: int = Field(
        default=1_000_000, ge=1, description="Records that one ingest takes from Kafka at most."
    )
    max_bad_share: float = Field(
        default=0.05, ge=0, le=1, description="The share of unreadable records of a source at which a run stops."
    )
    snapshot_every: int = Field(default=16, ge=1, description="Cycles between two snapshots of a table's state.")
    bronze_retention: Duration | None = Field(
        default=None,
        description="How long bronze keeps records after they were ingested; `lakestreams maintain` trims older ones. By "
        "default for ever.",
    )

    @field_validator("bronze_retention")
    @classmethod
    def _in_ms(cls, given: str | None) -> str | None:
        try:
            to_ms(given or "0 ms", "bronze_retention")
        except InvalidDuration as error:
            raise ValueError(error.message) from None
        return given


class OutputSpec(Model):
    """A Delta table that a stream or a table is written to."""

    from_: Name = Field(alias="from", description="A stream or a table: a source or a step.")
    mode: SinkMode | None = Field(
        default=None,
        description="Of a stream append; of a table merge (its rows, kept up to date by key: the default) or changes (its "
        "change log).",
    )
    change_feed: bool = Field(default=False, description="Of a table: whether Delta keeps a change data feed.")
    cluster_by: tuple[Name, ...] = Field(default=(), description="Columns for liquid clustering.")
    partition_by: tuple[Name, ...] = Field(
        default=(), description="Columns for partitions; not together with cluster_by."
    )


class PipelineFile(Model):
    """One pipeline: its steps and outputs, or the Python function that declares them."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["outputs"]}, {"required": ["topology"]}]},
    )

    pipeline: Name = Field(description="Its name, in tables and in the ledger.")
    settings: SettingsSpec = SettingsSpec()
    steps: dict[Name, StepSpec] | None = Field(default=None, description="Step names with what they do, in any order.")
    outputs: dict[Name, OutputSpec] | None = Field(
        default=None, description="Table names with the stream or table that is written to them."
    )
    topology: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")] | None = (
        Field(default=None, description="module:function of a Python topology, instead of steps and outputs.")
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
