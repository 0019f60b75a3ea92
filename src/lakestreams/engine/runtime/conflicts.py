"""Statements that lose against another one that has committed to their table in between: they are run again."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


# How Delta says that another statement has committed to the table in between.
_CONFLICT = re.compile(
    r"DELTA_CONCURRENT_|Concurrent(?:Append|DeleteRead|DeleteDelete|Transaction|Write)Exception|"
    r"DELTA_METADATA_CHANGED|MetadataChangedException|"  # as a seal does
    r"DELTA_PROTOCOL_CHANGED|ProtocolChangedException"  # as does whoever makes the table at the same moment
)
_ATTEMPTS, _PAUSE_S, _LONGEST_PAUSE_S = 12, 0.05, 2.0
_T = TypeVar("_T")


def again(statement: Callable[[], _T]) -> _T:
    """Runs a statement, and runs it again if another one has committed to its table in between.

    Delta lets one of two such statements fail even where they do not touch each other's rows: on a laptop a statement
    that reads the table that it writes to fails if another append commits at the same time. For statements that may be repeated.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return statement()
        except Exception as error:
            if attempt == _ATTEMPTS - 1 or not _CONFLICT.search(str(error)):
                raise
            time.sleep(min(_LONGEST_PAUSE_S, _PAUSE_S * 2**attempt))
    msg = "unreachable: the last attempt returns or raises"
    raise AssertionError(msg)


def lost_to_others(error: Exception) -> bool:
    """Whether a statement has failed because others went on committing to its table."""
    return bool(_CONFLICT.search(str(error)))
