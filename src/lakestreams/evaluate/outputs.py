"""What a table or a topic gets of a result: its columns, or its bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakestreams.errors import InvalidName, InvalidOption
from lakestreams.evaluate.encode import encoded
from lakestreams.evaluate.stateless import names
from lakestreams.operators.records import KEY, TIME, VALUE, lineage
from lakestreams.topology.derived import Aggregate, Suppress
from lakestreams.topology.endpoints import DeltaSink, KafkaSink, Sink
from lakestreams.topology.steps import DropAbsentDeletes, Filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

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
        _require_other_names(node, value, own)
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
    _require_layout(node, selected)
    return selected


def _require_other_names(node: DeltaSink, value: list[str], key: set[str]) -> None:
    """Refuses aggregates that the table would not have, since a column of the key has their name.

    Of other tables a value's column of that name holds the key once more, as in a table that a database feeds.
    """
    made = node.parent
    while isinstance(made, Filter | DropAbsentDeletes | Suppress):
        made = made.parent
    lost = [name for name in value if name.lower() in key]
    if lost and isinstance(made, Aggregate) and made.verb != "reduce":
        message = f"{', '.join(lost)} of {made.name} has the name of a column of its key, which alone would be written"
        hint = "give the group's column another name, or the result's: in its columns, or in a map_values behind it"
        raise InvalidName(message, hint=hint, where=node.where)


def _require_layout(node: DeltaSink, selected: DataFrame) -> None:
    """Refuses columns by which no table can be laid out."""
    laid_out = (*node.cluster_by, *node.partition_by)
    missing = [name for name in laid_out if name not in selected.columns]
    if missing:
        message = f"cluster_by or partition_by names {', '.join(missing)}, which the output lacks"
        raise InvalidName(message, hint=f"it has: {', '.join(selected.columns)}", where=node.where)
    kinds = {field.name: field.dataType for field in selected.schema.fields}
    # a partition's value is written as a text: bytes lose what is no text, structs and lists have none
    unfit = [one for one in node.partition_by if isinstance(kinds[one], BinaryType | StructType | ArrayType | MapType)]
    if unfit:
        message = f"partition_by names {', '.join(unfit)}, whose type has no text that gives the value back"
        raise InvalidOption(message, hint="cluster_by, or another column", where=node.where)
    if len(set(laid_out)) < len(laid_out):
        option = "cluster_by" if node.cluster_by else "partition_by"
        message = "cluster_by or partition_by names a column twice"
        raise InvalidOption(message, hint="name each column once", where=node.where, option=option)
    if len(node.cluster_by) > MOST_CLUSTERED:
        message = f"cluster_by has {len(node.cluster_by)} columns; Delta takes {MOST_CLUSTERED} at most"
        raise InvalidOption(message, hint="keep those that queries filter by", where=node.where, option="cluster_by")
    unfit = [name for name in node.cluster_by if not has_range(kinds[name])]
    if unfit:
        message = f"cluster_by names {', '.join(unfit)}, whose type has no least and greatest value for Delta"
        hint = "cluster by numbers, dates, timestamps or texts"
        raise InvalidOption(message, hint=hint, where=node.where, option="cluster_by")


MOST_CLUSTERED: Final = 4
"""Delta's limit (DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS)."""
OF_SINKS: Final[dict[type[Sink], Callable[[Any, DataFrame], DataFrame]]] = {DeltaSink: _silver, KafkaSink: _topic}


def has_range(kind: DataType) -> bool:
    """Whether Delta keeps the range of a column of a type in a file, by which it skips files that are clustered."""
    return isinstance(kind, NumericType | DateType | TimestampType | TimestampNTZType | StringType)
