"""What a table or a topic gets of a result: its columns, or its bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from lakestreams.errors import InvalidName, InvalidOption
from lakestreams.evaluate.encode import encoded
from lakestreams.evaluate.stateless import names
from lakestreams.operators.records import KEY, TIME, VALUE, lineage
from lakestreams.topology.endpoints import DeltaSink, KafkaSink, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT_TIME, LINEAGE = "event_time_ms", "_lineage"
RESERVED = (EVENT_TIME, LINEAGE)


def _topic(node: KafkaSink, frame: DataFrame) -> DataFrame:
    rows = encoded(node, frame, EVENT_TIME)
    return rows.select("key", "value", F.col(TIME).alias(EVENT_TIME), lineage().alias(LINEAGE))


def _silver(node: DeltaSink, frame: DataFrame) -> DataFrame:
    value = names(frame, VALUE)
    if node.is_table:
        # the key says which row it is, also of a deletion
        own = {name.lower() for name in names(frame, KEY)}
        value = [name for name in value if name.lower() not in own]
    else:  # a null value moves clocks on its way, and is written nowhere
        frame = frame.where(F.col(VALUE).isNotNull())
    taken = [name for name in (*value, *names(frame, KEY)) if name.lower() in RESERVED]
    if taken:
        message = f"column {', '.join(taken)} is reserved for the result's time and lineage"
        raise InvalidName(message, hint="rename it in a map_values or joiner", where=node.where)
    lowered = {name.lower() for name in value}
    key = [F.col(KEY)[name].alias(name) for name in names(frame, KEY) if name.lower() not in lowered]
    selected = frame.select(
        *key,
        *(F.col(VALUE)[name].alias(name) for name in value),
        F.col(TIME).alias(EVENT_TIME),
        lineage().alias(LINEAGE),
    )
    missing = [name for name in (*node.cluster_by, *node.partition_by) if name not in selected.columns]
    if missing:
        message = f"cluster_by or partition_by names {', '.join(missing)}, which the output lacks"
        raise InvalidName(message, hint=f"it has: {', '.join(selected.columns)}", where=node.where)
    kinds = {field.name: field.dataType for field in selected.schema.fields}
    # a partition's value is written as a text: bytes lose what is no text, structs and lists have none
    unfit = [one for one in node.partition_by if isinstance(kinds[one], BinaryType | StructType | ArrayType | MapType)]
    if unfit:
        message = f"partition_by names {', '.join(unfit)}, whose type has no text that gives the value back"
        raise InvalidOption(message, hint="cluster_by, or another column", where=node.where)
    return selected


OF_SINKS: Final[dict[type[Sink], Callable[[Any, DataFrame], DataFrame]]] = {DeltaSink: _silver, KafkaSink: _topic}
