"""Writers' schemas by their ids or GUIDs: kept in the ledger, asked of the registry once, before the first record that needs them.

An append is tried with the schemas that are known. Where a record names another one it stops before it has written
anything, and is tried again with all that the batch names. So a registry is needed only for what is new (decision 0038).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.reading import LedgerReader
from lakestreams.errors import SchemaMissing
from lakestreams.formats.base import Format
from lakestreams.formats.headers import LONGEST, named
from lakestreams.formats.writers import (
    HEADERS,
    LARGEST_ID,
    PREFIX,
    UNKNOWN_IDS,
    RegistryFormat,
    SchemaName,
    Written,
    with_known_schemas,
)
from lakestreams.registry.client import Registry
from lakestreams.registry.options import RegistryOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source

_T = TypeVar("_T")
_NO_GUIDS: Final = "this registry does not look schemas up by GUID; let producers write the id, in a header or a prefix"


class WriterSchemas:
    """What one run knows of writers' schemas. The ledger is read once.

    It travels to another process (Spark Connect's worker) empty, and there reads the ledger itself.

    Args:
        registry: where schemas are asked for that the ledger does not know; None: nowhere.
    """

    def __init__(self, registry: RegistryOptions | None = None) -> None:
        self._registry = registry
        self._client: Registry | None = None  # one for the whole run: where no answer came once, nothing more is asked
        self._known: dict[SchemaName, Written] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[[RegistryOptions | None], WriterSchemas], tuple[RegistryOptions | None]]:
        """Pickled, it starts again."""
        return WriterSchemas, (self._registry,)

    def append(self, ledger: Ledger, raw: DataFrame, source: Source, append: Callable[[Source], _T]) -> _T:
        """Runs an append with a source that knows the schemas of its records.

        Args:
            ledger: of the running epoch.
            raw: the records that are appended, with their columns `key`, `value` and `headers`.
            append: gives up before it has written anything if a record names a schema that the source does not know.

        Raises:
            RegistryUnreachable, RegistryRefused: if a schema is needed that the registry does not tell.
            SchemaMissing: if one is needed, and no registry is declared.
        """
        if not needs_schemas(source):
            return append(source)
        known = self._of_ledger(raw.sparkSession, ledger)
        if known:  # else it would be tried for nothing
            try:
                return append(fitted(source, known, strict=True))
            except Exception as error:
                if UNKNOWN_IDS not in str(error):
                    raise
        return append(self.knowing(ledger, raw, source))

    def knowing(self, ledger: Ledger, raw: DataFrame, source: Source, *, keep: bool = True) -> Source:
        """The source with all schemas that these records name. Records whose schema the registry lacks are refused.

        Args:
            ledger: of the running epoch, if schemas are kept.
            raw: the records, with their columns `key`, `value` and `headers`.
            keep: whether schemas that are new are written down, which must be before anything that is read by them.
        """
        if not needs_schemas(source):
            return source
        spark = raw.sparkSession
        known: dict[SchemaName, Written | str | None] = {**self._of_ledger(spark, ledger)}
        for name in sorted(_named(raw, source) - known.keys(), key=str):
            schema = known[name] = self._asked(name) if isinstance(name, str) or 0 < name <= LARGEST_ID else None
            if keep and isinstance(schema, Written):
                ledger.record_schema(spark, name, schema)
                self._remember(name, schema)
        return fitted(source, known, strict=False)

    def _of_ledger(self, spark: SparkSession, ledger: LedgerReader) -> dict[SchemaName, Written]:
        with self._lock:
            if self._known is None:
                self._known = ledger.schemas(spark)
            return dict(self._known)

    def _remember(self, name: SchemaName, schema: Written) -> None:
        with self._lock:
            self._known = {**(self._known or {}), name: schema}

    def _asked(self, name: SchemaName) -> Written | str | None:
        """The schema of an id or a GUID; None if the registry does not know it, or why it cannot be asked."""
        if self._registry is None:
            msg = f"records name schema {name}, and no registry is declared where it could be asked for"
            raise SchemaMissing(msg, hint="registry: {url: ...} in conf/sources.yml")
        with self._lock:
            registry = self._client = self._client or Registry(self._registry)
        try:
            found = registry.by_guid(name) if isinstance(name, str) else registry.by_id(name)
            if found is None and isinstance(name, str) and not registry.looks_up_guids():
                return _NO_GUIDS
        except SchemaMissing as error:  # of this one; records of others are read
            return error.message
        return None if found is None else Written(found.kind, (*found.references, found.text))


def needs_schemas(source: Source) -> bool:
    """Whether records of a source name the schemas that wrote them."""
    return any(isinstance(one, RegistryFormat) for one in (source.key, source.value))


def fitted(source: Source, known: Mapping[SchemaName, Written | str | None], *, strict: bool) -> Source:
    """The source, its formats with what is known of the schemas."""
    return replace(source, key=_fitted(source.key, known, strict), value=_fitted(source.value, known, strict))


def _fitted(one: Format, known: Mapping[SchemaName, Written | str | None], strict: bool) -> Format:
    return cast(Format, with_known_schemas(one, known, strict=strict)) if isinstance(one, RegistryFormat) else one


def _named(raw: DataFrame, source: Source) -> set[SchemaName]:
    """The schemas that records name."""
    sides = [name for name, one in (("key", source.key), ("value", source.value)) if isinstance(one, RegistryFormat)]
    said = F.explode(F.array(*(F.when(F.col(side).isNotNull(), _saying(side)) for side in sides)))
    rows = raw.select(said.alias("said")).where(F.col("said").isNotNull()).distinct().collect()
    found = (named(bytes(row["said"])) for row in rows)
    return {one.schema for one in found if one is not None}


def _saying(side: str) -> Column:
    """The bytes that name a record's schema: those of its header, else the first ones if they may be a prefix."""
    header = F.get(F.filter("headers", lambda one: one["key"] == HEADERS[side]), 0)["value"]
    prefix = F.when(F.hex(F.substring(side, 1, 1)) == "00", F.substring(side, 1, PREFIX))
    return F.coalesce(F.substring(header, 1, LONGEST), prefix)


__all__ = ["WriterSchemas", "fitted", "needs_schemas"]
