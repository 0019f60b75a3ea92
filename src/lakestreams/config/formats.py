"""Formats of keys and values as files say them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from lakestreams.config.parts import Model, Name, Sql, exactly_one
from lakestreams.formats import (
    Avro,
    ConnectJson,
    DebeziumAvro,
    DebeziumJson,
    GlueAvro,
    Int,
    Json,
    JsonScalar,
    JsonSchema,
    Long,
    MaxwellJson,
    Protobuf,
    RegistryAvro,
    RegistryJson,
    RegistryProtobuf,
    Short,
    TableColumns,
    Text,
    Uuid,
)
from lakestreams.formats.base import Format


def _as_json(schema: object) -> object:
    """A schema that is written as YAML, as the JSON text that it stands for."""
    return schema if isinstance(schema, str) or schema is None else json.dumps(schema)


SchemaText: TypeAlias = Annotated[
    str,
    BeforeValidator(_as_json, json_schema_input_type=str | dict[str, Any] | list[Any]),
    StringConstraints(min_length=1, max_length=1_000_000),
]


class FormatSpec(Model):
    """How bytes are read: exactly one of the formats."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(_one_format()))

    text: Name | None = Field(default=None, description="UTF-8 text as one string column of this name.")
    long: Name | None = Field(default=None, description="Kafka's eight-byte long as one bigint column of this name.")
    int_: Name | None = Field(
        default=None,
        alias="int",
        description="Four bytes, as Kafka's IntegerSerializer writes them, as one int column.",
    )
    short: Name | None = Field(
        default=None, description="Two bytes, as its ShortSerializer does, as one smallint column."
    )
    uuid: Name | None = Field(default=None, description="A UUID's sixteen bytes as one string column.")
    json_scalar: Sql | None = Field(
        default=None, description="A JSON text or whole number without an object, such as 'id bigint'."
    )
    json_: Sql | None = Field(
        default=None, alias="json", description="A JSON object with these columns, such as 'ms bigint, page string'."
    )
    registry_json: Sql | None = Field(default=None, description="The same after a schema registry's five-byte prefix.")
    connect_json: Sql | None = Field(
        default=None, description="The same in the wrapper of Connect's JsonConverter: schema and payload."
    )
    debezium_json: Sql | None = Field(
        default=None,
        description="Of a table's value: the row of a Debezium change event, with or without that wrapper.",
    )
    maxwell_json: Sql | None = Field(
        default=None, description="Of a table's value: the row of a change event of Maxwell."
    )
    avro: SchemaText | None = Field(
        default=None,
        description="Avro by this schema, as JSON text, as YAML or as the path of an .avsc file, without anything before it.",
    )
    registry_avro: SchemaText | None = Field(
        default=None,
        description="Avro after a schema registry's five-byte prefix, read as this schema by the one that wrote it.",
    )
    glue_avro: SchemaText | None = Field(
        default=None,
        description="Avro after the header of AWS Glue's Schema Registry, read as this schema by the version that wrote it.",
    )
    debezium_avro: SchemaText | None = Field(
        default=None,
        description="Of a table's value: the row of a Debezium change event in Avro, after that prefix; by the schema of the topic's values or of the rows, or of MongoDB by the columns of the documents.",
    )
    json_schema: SchemaText | None = Field(
        default=None,
        description="A JSON object after a schema registry's five-byte prefix. It is read as these columns, or by a JSON Schema: text, YAML or the path of a .json file.",
    )
    protobuf: SchemaText | None = Field(
        default=None,
        description="A message of Protobuf by this schema, as the text or the path of a .proto file, without anything before it.",
    )
    registry_protobuf: SchemaText | None = Field(
        default=None,
        description="The same after a schema registry's prefix and the place of the message in its schema.",
    )
    columns: Sql | None = Field(
        default=None, description="Of a Delta table: its columns, such as 'id bigint'; may stand without this key."
    )

    fields: dict[Name, str | tuple[str, ...]] | None = Field(
        default=None,
        description="For JSON, also the documents of debezium_avro: columns with the names of their fields, if they differ; a list of names leads into objects.",
    )

    column: Name | None = Field(
        default=None, description="Of Avro: what the column of a schema that is no record is called; by default value."
    )
    versions: dict[Name, SchemaText] | None = Field(
        default=None,
        description="Of glue_avro: the schema versions that write records, by their UUIDs: texts, YAML or paths of .avsc files.",
    )
    message: Name | None = Field(
        default=None,
        description="Of Protobuf: which message of the schema records are; by default the only one of the file.",
    )
    imports: dict[Name, SchemaText] | None = Field(
        default=None,
        description="Of Protobuf: what the schema imports, by the names of the imports: texts or paths of .proto files.",
    )
    subject: Name | None = Field(
        default=None,
        description="Of registry_avro, json_schema and registry_protobuf: under which an output's schema is registered; by default the topic's name with -key or -value.",
    )

    register_: bool | None = Field(
        default=None,
        alias="register",
        description="Of registry_avro, json_schema and registry_protobuf: whether a run registers an output's schema; by default the subject must have it.",
    )

    @model_validator(mode="after")
    def _one(self) -> FormatSpec:
        exactly_one(self, tuple(_FORMATS), "a format")
        if self.fields is not None and not any(getattr(self, name) is not None for name in _WITH_FIELDS):
            msg = f"fields: only {', '.join(_alias(name) for name in _WITH_FIELDS)} have them"
            raise ValueError(msg)
        if self.column is not None and self.avro is None and self.registry_avro is None and self.glue_avro is None:
            msg = "column: only avro, registry_avro and glue_avro have one"
            raise ValueError(msg)
        if (self.versions is None) != (self.glue_avro is None):
            msg = "glue_avro and versions: neither is without the other"
            raise ValueError(msg)
        is_protobuf = self.protobuf is not None or self.registry_protobuf is not None
        if not is_protobuf and (self.message is not None or self.imports is not None):
            msg = "message and imports: only protobuf and registry_protobuf have them"
            raise ValueError(msg)
        is_registered = any(getattr(self, name) is not None for name in _REGISTERED)
        if not is_registered and (self.subject is not None or self.register_ is not None):
            msg = f"subject and register: only {', '.join(_REGISTERED)} have them"
            raise ValueError(msg)
        return self

    @property
    def chosen(self) -> str:
        """The one format that is given, by its attribute."""
        return next(name for name in _FORMATS if getattr(self, name) is not None)

    @property
    def said(self) -> str:
        """What is said of it: a column's name, columns, or a schema."""
        return str(getattr(self, self.chosen))

    @property
    def options(self) -> dict[str, Any]:
        """Everything else that is said, by the names of the format's arguments."""
        return {name.rstrip("_"): one for name in _OPTIONS if (one := getattr(self, name)) is not None}

    def build(self) -> Format:
        """The format itself.

        Raises:
            InvalidFormat: if the column name or the schema cannot be used.
        """
        fmt = _FORMATS[self.chosen](self.said, **self.options)
        fmt.fields  # noqa: B018 - a name that tables cannot carry is refused here, where its place is known
        return fmt


_OF_JSON: Final[dict[str, Callable[..., Format]]] = {
    "json_": Json,
    "registry_json": RegistryJson,
    "connect_json": ConnectJson,
    "debezium_json": DebeziumJson,
    "maxwell_json": MaxwellJson,
    "json_schema": JsonSchema,
}
_WITH_FIELDS: Final = (*_OF_JSON, "debezium_avro")
_REGISTERED: Final = ("registry_avro", "json_schema", "registry_protobuf")
_OPTIONS: Final = ("fields", "column", "versions", "message", "imports", "subject", "register_")
_FORMATS: Final[dict[str, Callable[..., Format]]] = {
    "text": Text,
    "long": Long,
    "int_": Int,
    "short": Short,
    "uuid": Uuid,
    "json_scalar": JsonScalar,
    **_OF_JSON,
    "avro": Avro,
    "registry_avro": RegistryAvro,
    "glue_avro": GlueAvro,
    "debezium_avro": DebeziumAvro,
    "protobuf": Protobuf,
    "registry_protobuf": RegistryProtobuf,
    "columns": TableColumns,
}
OF_COLUMNS: Final = (*_OF_JSON, "avro", "registry_avro", "glue_avro", "debezium_avro", "protobuf", "registry_protobuf")
"""Formats whose values are written as a mapping of the columns; those of the others as the one column's value."""


def _alias(name: str) -> str:
    """The key of a format in the file."""
    return FormatSpec.model_fields[name].alias or name


def _one_format() -> dict[str, Any]:
    """What a JSON Schema says of a format: exactly one of its names."""
    return {"oneOf": [{"required": [_alias(name)]} for name in _FORMATS]}
