"""What `lakestreams quarantine` takes: which records, and how they are decided on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakestreams.errors import InvalidDuration, InvalidOption
from lakestreams.topology.durations import to_ms

if TYPE_CHECKING:
    from lakestreams.engine.replay.quarantined import Filters
    from lakestreams.topology.topology import Topology

Several = list[str] | None
_MOST_INT, _MOST_LONG = 2**31 - 1, 2**63 - 1  # that the columns can hold


@dataclass(frozen=True)
class Wanted:
    """Which records are meant; `filters` gives the engine's words for it."""

    code: Annotated[Several, typer.Option(help="Only with this reason, such as LATE; repeatable.")] = None
    rule: Annotated[Several, typer.Option(help="Only what broke this rule; repeatable.")] = None
    node: Annotated[Several, typer.Option(help="Only what this source or step has refused; repeatable.")] = None
    topic: Annotated[Several, typer.Option(help="Only of this topic, or source; repeatable.")] = None
    state: Annotated[
        Several,
        typer.Option(help="Only in this state: open, requested, replayed, superseded or discarded; repeatable."),
    ] = None
    partition: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None
    offset: Annotated[int | None, typer.Option(min=0, help="This offset alone.")] = None
    from_offset: Annotated[int | None, typer.Option("--from", min=0, help="The first offset.")] = None
    to_offset: Annotated[int | None, typer.Option("--to", min=0, help="The last offset.")] = None
    place: Annotated[
        str | None,
        typer.Option("--at", metavar="TOPIC-PARTITION@OFFSET", help="One record, or with #ATTEMPT one replay of it."),
    ] = None
    cycle: Annotated[int | None, typer.Option(min=1, help="Only what this cycle has refused.")] = None
    since: Annotated[
        str | None, typer.Option(help="Only what was ingested since: 2h, 2026-01-31, 2026-01-31T12:00:00.")
    ] = None

    def __post_init__(self) -> None:
        """Refuses options that name offsets twice."""
        if self.offset is not None and (self.from_offset is not None or self.to_offset is not None):
            msg = "--offset is one, --from and --to are a stretch of them"
            raise typer.BadParameter(msg)
        others = (self.partition, self.offset, self.from_offset, self.to_offset)
        if self.place is not None and (self.topic or any(one is not None for one in others)):
            msg = "--at names topic, partition and offset already"
            raise typer.BadParameter(msg)
        numbers = {"--partition": (self.partition, _MOST_INT)} | {
            option: (number, _MOST_LONG)
            for option, number in (
                ("--offset", self.offset), ("--from", self.from_offset), ("--to", self.to_offset), ("--cycle", self.cycle)
            )
        }  # fmt: skip
        for option, (number, most) in numbers.items():
            if number is not None and number > most:
                msg = f"{option} is {number}; {most} is the most"
                raise typer.BadParameter(msg)

    def filters(self, topology: Topology) -> Filters:
        """The same as the engine takes it; a topic may be named by its source.

        Raises:
            InvalidOption: if an option cannot be read.
        """
        from lakestreams.engine.replay.quarantined import Filters  # noqa: PLC0415 - needs pyspark
        from lakestreams.engine.replay.requests import STATES  # noqa: PLC0415 - needs pyspark
        from lakestreams.verify.trace import at  # noqa: PLC0415 - needs pyspark

        states = self.state or ()
        unknown = [state for state in states if state not in STATES]
        if unknown:
            msg = f"there is no state {unknown[0]!r}"
            raise InvalidOption(msg, hint=f"--state is one of {', '.join(STATES)}")
        by_name = {source.name: source.topic for source in topology.sources}
        result = Filters(
            codes=tuple(self.code or ()),
            rules=tuple(self.rule or ()),
            nodes=tuple(self.node or ()),
            topics=tuple(by_name.get(topic, topic) for topic in self.topic or ()),
            partition=self.partition,
            from_offset=self.from_offset if self.offset is None else self.offset,
            to_offset=self.to_offset if self.offset is None else self.offset,
            cycle=self.cycle,
            since_ms=None if self.since is None else moment_ms(self.since, datetime.now(UTC)),
            states=tuple(state for state in STATES if state in states),
        )
        if self.place is None:
            return result
        topic, partition, offset, *attempts = at(self.place)
        one = replace(result, topics=(topic,), partition=partition, from_offset=offset, to_offset=offset)
        return replace(one, attempt=attempts[0]) if attempts else one


@dataclass(frozen=True)
class Edits:
    """What replaces the content of records."""

    repair: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON lines with new keys, values or timestamps; only these records."),
    ] = None
    set_value: Annotated[str | None, typer.Option(metavar="TEXT", help="The new value of the one record.")] = None

    def __post_init__(self) -> None:
        """Refuses two sources of new content."""
        if self.repair is not None and self.set_value is not None:
            msg = "--repair and --set-value exclude each other"
            raise typer.BadParameter(msg)


@dataclass(frozen=True)
class Decision:
    """How records are decided on."""

    again: Annotated[bool, typer.Option("--again", help="Also what was replayed, superseded or discarded before.")] = (
        False
    )
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
    reason: Annotated[str, typer.Option(help="Why: a note for later readers.")] = ""


def moment_ms(text: str, now: datetime) -> int:
    """A moment, or how long ago it is, as ms since 1970.

    Raises:
        InvalidOption: if it is neither.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return int(now.timestamp() * 1_000) - to_ms(text, "--since")
        except InvalidDuration as error:
            msg = f"--since {text}: neither a moment nor a duration"
            raise InvalidOption(msg, hint="--since 2h, --since 2026-01-31 or --since 2026-01-31T12:00:00") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
