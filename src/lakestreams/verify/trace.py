"""What became of a record: what is reported of it, and how its place is written."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from lakestreams.errors import InvalidOption
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.operators.records import AMENDED, MATCHED, UNMATCHED
from lakestreams.verify.identity import Identity

Place = tuple[str, int, int]
"""Topic, partition, offset."""

OUTPUT: Final = "output"
"""In a result: the name of the output; a column that is called so is `column output` there."""

IN_QUARANTINE: Final = "is in quarantine by "
"""How the sentence begins that says who refused a record."""

Asked = Place | Identity
"""What is asked for: all attempts at a record, or one."""

_WRITTEN: Final = re.compile(
    r"(?P<topic>.+)-(?P<partition>[0-9]{1,10})@(?P<offset>[0-9]{1,19})(?:#(?P<attempt>[0-9]{1,10}))?", re.DOTALL
)
_MOST: Final = {"partition": 2**31 - 1, "offset": 2**63 - 1, "attempt": 2**31 - 1}  # that a table can hold


@dataclass
class Trace:
    """What became of a record.

    Attributes:
        topic, partition, offset, attempt: which one; attempt 0 is as the topic has it, the others were replayed.
        seq: the ingest batch that brought it.
        key, value: as text, as far as they are text or numbers.
        event_time_ms: its time.
        cycle: the cycle that took it, or None.
        sentences: what became of it, a sentence each.
        stream_time_ms: the furthest time of its partition when it came, itself included; it places the record in the order.
        results: output, row and lineage of what it contributed to, at most 20 an output; of a topic key and value.
    """

    topic: str
    partition: int
    offset: int
    attempt: int
    seq: int
    key: str | None
    value: str | None
    event_time_ms: int | None
    cycle: int | None
    sentences: list[str] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    stream_time_ms: int | None = None

    @property
    def place(self) -> Place:
        """Its coordinates."""
        return self.topic, self.partition, self.offset

    @property
    def is_joined(self) -> bool:
        """Whether a join's row is made of it; an aggregate's row only names the record that brought it about."""
        return any(row[LINEAGE]["kind"] in (MATCHED, AMENDED, UNMATCHED) for row in self.results)

    @property
    def identity(self) -> Identity:
        """Its coordinates and its attempt."""
        return *self.place, self.attempt

    def as_dict(self) -> dict[str, Any]:
        """For JSON, where the sentences are `told`, as in the column of `lakestreams.open(...).why`."""
        named_so = {"told" if name == "sentences" else name: value for name, value in asdict(self).items()}
        return {name: value for name, value in named_so.items() if name != "stream_time_ms"}


def at(text: str) -> Asked:
    """Coordinates as they are written, `TOPIC-PARTITION@OFFSET`; with `#ATTEMPT` behind them one attempt alone.

    Raises:
        InvalidOption: if the text is none.
    """
    given: object = text  # users of Python pass anything
    match = _WRITTEN.fullmatch(given) if isinstance(given, str) else None
    if match is not None and any(int(match[name] or 0) > most for name, most in _MOST.items()):
        match = None
    if match is None:
        message = f"{text!r} names no record"
        hint = "TOPIC-PARTITION@OFFSET, such as PageViews-0@17, or PageViews-0@17#1 for its first replay"
        raise InvalidOption(message, hint=hint)
    place = match["topic"], int(match["partition"]), int(match["offset"])
    return place if match["attempt"] is None else (*place, int(match["attempt"]))


def written(place: Asked) -> str:
    """Coordinates as `at` reads them."""
    return f"{place[0]}-{place[1]}@{place[2]}" + "".join(f"#{attempt}" for attempt in place[3:])


def named(topic: str, partition: int, offset: int, attempt: int) -> str:
    """Coordinates and, of a replayed record, its attempt."""
    return written((topic, partition, offset)) + (f"#{attempt}" if attempt else "")
