"""The steps that look at one record at a time: what each does to a records frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from lakestreams.errors import InvalidExpression, InvalidName, LakestreamsError
from lakestreams.operators.records import (
    BY_KEY,
    KEY,
    KEY_HASH,
    OLD,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    VALUE,
    hashed,
    is_new,
    renumber,
)
from lakestreams.operators.versions import TableSide
from lakestreams.sql import NAME_HINT, name_fault, quoted
from lakestreams.topology.fields import Fields
from lakestreams.topology.graph import is_multi_row, overlap_of
from lakestreams.topology.node import Node, PerRow
from lakestreams.topology.steps import FlatMap, FlatMapValues, Map, MapValues, Merge, SelectKey

if TYPE_CHECKING:
    from lakestreams.topology.kinds import Predicate, Projection

_ITEM = "item"


class Steps:
    """Applies steps; faults in what the user's functions name are noted, not raised."""

    def __init__(self, nodes: Sequence[Node], faults: list[LakestreamsError]) -> None:
        self._nodes = nodes
        self._faults = faults

    def map_values(self, node: MapValues, frame: DataFrame) -> DataFrame:
        """Another value, of streams and of tables; a table's value before goes the same way."""
        for value in _values(frame):
            made = self.struct(node, node.mapper(self.fields(node.parent.name, frame, node, value=value)))
            frame = frame.withColumn(value, F.when(F.col(value).isNotNull(), made))
        return frame

    def kept(self, node: PerRow, frame: DataFrame, predicate: Predicate, *, table: bool) -> DataFrame:
        """The rows that fulfil a predicate, of streams and of tables; a table's value before goes the same way."""
        for value in _values(frame):
            fulfilled = predicate(self.fields(node.parent.name, frame, node, value=value))
            if table:  # what does not fulfil it is deleted, which needs a version of its own
                frame = frame.withColumn(value, F.when(F.col(value).isNotNull() & fulfilled, F.col(value)))
            else:
                frame = frame.where(fulfilled)
        return frame

    def select_key(self, node: SelectKey, frame: DataFrame) -> DataFrame:
        """Another key."""
        projection = node.mapper(self.fields(node.parent.name, frame, node))
        return frame.withColumn(KEY, self.key(node, projection))

    def map(self, node: Map, frame: DataFrame) -> DataFrame:
        """Another key and another value; a null value stays null."""
        key, value = self._pair(node, node.mapper(self.fields(node.parent.name, frame, node)))
        there = F.col(VALUE).isNotNull()
        return frame.withColumns({KEY: self.key(node, key), VALUE: F.when(there, self.struct(node, value))})

    def flat_map_values(self, node: FlatMapValues, frame: DataFrame) -> DataFrame:
        """Several values of each record, one after the other."""
        made = node.mapper(self.fields(node.parent.name, frame, node))
        items = made if isinstance(made, Column) else F.array(*(self.struct(node, one) for one in made))
        return self._exploded(node, frame, items, {VALUE: F.col(_ITEM)})

    def flat_map(self, node: FlatMap, frame: DataFrame) -> DataFrame:
        """Several records of each, one after the other."""
        pairs = [self._pair(node, pair) for pair in node.mapper(self.fields(node.parent.name, frame, node))]
        items = F.array(
            *(F.struct(self.key(node, key).alias(KEY), self.struct(node, value).alias(VALUE)) for key, value in pairs)
        )
        return self._exploded(node, frame, items, {KEY: F.col(_ITEM)[KEY], VALUE: F.col(_ITEM)[VALUE]})

    def merge(self, node: Merge, left: DataFrame, right: DataFrame) -> DataFrame:
        """Both streams as one; rows that one record has on both sides come in Kafka Streams' order."""
        wrong = [
            f"{word} {left.schema[column].dataType.simpleString()} against {right.schema[column].dataType.simpleString()}"
            for word, column in (("key", KEY), ("value", VALUE))
            if left.schema[column].dataType.simpleString() != right.schema[column].dataType.simpleString()
        ]
        if wrong:
            message = f"{node.left.name} and {node.right.name} differ: {'; '.join(wrong)}"
            raise InvalidExpression(message, hint="map one of them to the other's columns", where=node.where)
        overlap = overlap_of(node, self._nodes)
        if overlap == "none":
            return left.unionByName(right)
        sides = [left.withColumn("arm", F.lit(0)), right.withColumn("arm", F.lit(1))]
        arm = F.col("arm") if overlap == "left_first" else -F.col("arm")
        return renumber(sides[0].unionByName(sides[1]), arm, F.col(PLACE)).drop("arm")

    def drop_absent_deletes(self, table: TableSide, since: int) -> TableSide:
        """A table without deletions of keys that have no row; one exchange and one sort of what is known of it."""
        rows = table.all()
        if OLD in rows.columns:
            before = F.col(OLD).isNotNull()
        else:
            before = F.lag(F.col(VALUE).isNotNull(), 1, False).over(Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE))
        # a null key is nobody's row: who reads it refuses it
        stays = F.col(VALUE).isNotNull() | F.col("before") | F.col(KEY).isNull() | ~is_new(since)
        kept = hashed(rows).withColumn("before", before).where(stays)
        return TableSide(None, kept.drop("before", KEY_HASH))

    def fields(self, owner: str, frame: DataFrame, node: Node, key: str = KEY, value: str = VALUE) -> Fields:
        """What a function sees of one side."""
        return Fields(owner, paths(frame, key, value), self._faults, node.where, kinds(frame, key, value))

    def struct(self, node: Node, projection: Projection) -> Column:
        """The columns that a user's function returned, as a struct."""
        given: object = projection  # a user's function may return anything
        if not isinstance(given, Mapping) or not given:
            column_alone = isinstance(given, Column)
            returned = "a Column" if column_alone else repr(given)
            hint = 'give it a name: return {"name": column}' if column_alone else 'return {"name": column, ...}'
            message = f"the function returned {returned}, not a dict of name to Column"
            raise InvalidExpression(message, hint=hint, where=node.where)
        require_names(projection, node)
        require_distinct_names(projection, node)
        return F.struct(*(column(value).alias(name) for name, value in projection.items()))

    def key(self, node: Node, projection: Projection) -> Column:
        """The columns of a key, as a struct; a key of nothing but nulls is a null key."""
        made = self.struct(node, projection)
        there = reduce(or_, (column(value).isNotNull() for value in projection.values()))
        return F.when(there, made)

    def _pair(self, node: Map | FlatMap, pair: object) -> tuple[Projection, Projection]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            message = f"the function returned {pair!r}, not a pair of dicts"
            raise InvalidExpression(message, hint='return {"key": ...}, {"value": ...}', where=node.where)
        return pair[0], pair[1]

    def _exploded(
        self, node: FlatMap | FlatMapValues, frame: DataFrame, items: Column, columns: Mapping[str, Column]
    ) -> DataFrame:
        rows = frame.where(F.col(VALUE).isNotNull()).select("*", F.posexplode(items).alias("pos", _ITEM))
        if is_multi_row(node.parent):
            rows = renumber(rows, F.col(PLACE), F.col("pos"))
        else:
            rows = rows.withColumn(PLACE, F.col("pos"))
        return rows.withColumns(dict(columns)).select(*RECORD_COLUMNS)


def _values(frame: DataFrame) -> tuple[str, ...]:
    """The columns with values: what a row is, and of tables what it was before, if somebody reads that."""
    return (VALUE, OLD) if OLD in frame.columns else (VALUE,)


def require_names(names: Iterable[object], node: Node) -> None:
    """Refuses names of columns that tables cannot carry.

    Raises:
        InvalidName: for the first one.
    """
    for name in names:
        fault = name_fault(name)
        if fault is not None:
            raise InvalidName(fault, hint=NAME_HINT, where=node.where)


def require_distinct_names(names: Collection[str], node: Node) -> None:
    """Refuses names that differ in capitals alone.

    Raises:
        InvalidName: then.
    """
    if len({name.lower() for name in names}) < len(names):
        message = f"two columns differ only in capitals: {', '.join(names)}"
        raise InvalidName(message, hint="Spark does not tell them apart; rename one", where=node.where)


def require_columns(columns: StructType, node: Node) -> None:
    """Refuses columns that tables cannot carry, and a key that cannot meet others.

    A key with a collation cannot: Kafka compares bytes, and so do Spark's hashes, whatever its comparisons do. A table's
    key with a map in it cannot either, since Spark compares no maps.

    Raises:
        InvalidName, InvalidExpression: for the first one.
    """
    structs = (one for one in types_within(columns) if isinstance(one, StructType))
    require_names((name for one in structs for name in one.names), node)
    if not {*RECORD_COLUMNS} <= {*columns.names}:  # an output: none of its columns is a key to meet others
        return
    value = columns[VALUE].dataType
    if not isinstance(value, StructType):
        message = f"what comes out is {value.simpleString()}, not columns with names"
        hint = "an array of structs, such as array(named_struct('name', value))"
        raise InvalidExpression(message, hint=hint, where=node.where)
    for kind in types_within(columns[KEY].dataType):
        if isinstance(kind, StringType) and kind.collation != StringType().collation:
            message = f"the key has the collation {kind.collation}, and keys meet byte by byte"
            raise InvalidExpression(message, hint="make texts equal that shall meet, as lower() does", where=node.where)
        if node.is_table and isinstance(kind, MapType):
            message = "the key of a table has a map in it, and no two maps can be compared"
            hint = "read a stream instead, and key it by what is in the map: select_key, then to_table"
            raise InvalidExpression(message, hint=hint, where=node.where)


def types_within(kind: DataType) -> Iterator[DataType]:
    """A type and those inside it, at every depth."""
    yield kind
    if isinstance(kind, StructType):
        inside = [one.dataType for one in kind.fields]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    else:
        inside = [kind.elementType] if isinstance(kind, ArrayType) else []
    for one in inside:
        yield from types_within(one)


def column(value: object) -> Column:
    """A column, also of a plain value."""
    return value if isinstance(value, Column) else F.lit(value)


def names(frame: DataFrame, struct: str) -> list[str]:
    """The names inside a struct column."""
    found: list[str] = frame.schema[struct].dataType.names  # type: ignore[attr-defined]
    return found


def paths(frame: DataFrame, key: str, value: str) -> dict[str, str]:
    """Column name to the SQL text that refers to it; the value's wins over the key's."""
    found = {name: quoted(key, name) for name in names(frame, key)}
    return found | {name: quoted(value, name) for name in names(frame, value)}


def kinds(frame: DataFrame, key: str, value: str) -> dict[str, str]:
    """Column name to its SQL type; the value's wins over the key's."""
    fields = (field for struct in (key, value) for field in frame.schema[struct].dataType.fields)  # type: ignore[attr-defined]
    return {field.name: field.dataType.simpleString() for field in fields}
