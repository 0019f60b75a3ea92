"""`lakestreams quarantine`: what is in quarantine, one record whole, and the decisions on it: replay or discard."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.errors import ConfigUnreadable, InvalidOption, NotInQuarantine, RepairUnfit
from lakestreams.run import failure
from lakestreams.run.runner import RunOptions, load, open_lake, open_session
from lakestreams.visible import visible, visible_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.replay.ingest import Outlook
    from lakestreams.engine.replay.requests import Filters, Request, Selection
    from lakestreams.topology.topology import Topology

_NEWEST = ("topic", "partition", "offset", "attempt", "code", "node", "rules", "cycle", "state", "message")


@dataclass(frozen=True)
class Wanted:
    """What the options of the command say about which rows are meant; see `engine.replays.Filters`.

    Attributes:
        codes, rules, nodes, topics, states: one of these; a topic also by its source's name.
        partition, from_offset, to_offset, cycle: numbers.
        place: `TOPIC-PARTITION@OFFSET`.
        since: a moment (`2026-01-31`, `2026-01-31T12:00:00`, UTC) or how long ago, such as `2h`.
    """

    codes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    partition: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    cycle: int | None = None
    place: str | None = None
    since: str | None = None

    def filters(self, topology: Topology) -> Filters:
        """The same as the engine takes it.

        Raises:
            InvalidOption: if an option cannot be read.
        """
        from lakestreams.engine.replay.requests import STATES, Filters  # noqa: PLC0415 - needs pyspark
        from lakestreams.verify.why import at  # noqa: PLC0415 - needs pyspark

        unknown = [state for state in self.states if state not in STATES]
        if unknown:
            msg = f"there is no state {unknown[0]!r}"
            raise InvalidOption(msg, hint=f"--state is one of {', '.join(STATES)}")
        by_name = {source.name: source.topic for source in topology.sources}
        topics = tuple(by_name.get(topic, topic) for topic in self.topics)
        found = Filters(
            self.codes, self.rules, self.nodes, topics, self.partition, self.from_offset, self.to_offset, self.cycle,
            None if self.since is None else moment_ms(self.since, datetime.now(UTC)),
            tuple(state for state in STATES if state in self.states),
        )  # fmt: skip
        if self.place is None:
            return found
        topic, partition, offset = at(self.place)
        return replace(found, topics=(topic,), partition=partition, from_offset=offset, to_offset=offset)


@dataclass(frozen=True)
class Opened:
    """A pipeline's quarantine, at hand."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    filters: Filters


def moment_ms(text: str, now: datetime) -> int:
    """A moment, or how long ago it is, as ms since 1970.

    Raises:
        InvalidOption: if it is neither.
    """
    from lakestreams.errors import InvalidDuration  # noqa: PLC0415 - beside its use
    from lakestreams.topology.durations import to_ms  # noqa: PLC0415 - as the others

    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        try:
            return int(now.timestamp() * 1_000) - to_ms(text, "--since")
        except InvalidDuration as error:
            msg = f"--since {text}: neither a moment nor a duration"
            raise InvalidOption(msg, hint="--since 2h, --since 2026-01-31 or --since 2026-01-31T12:00:00") from error
    return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1_000)


def _open(screen: Screen, options: RunOptions, wanted: Wanted) -> Opened:
    lake, (pipeline,) = open_lake(options), load(options)
    with screen.working("starting Spark"):
        spark = open_session(quick=True, lake=lake, progress=screen.say)
    from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.publish import quarantine  # noqa: PLC0415 - needs pyspark

    ledger = Ledger(lake.naming(pipeline.topology), pipeline.topology.name)
    if not (ledger.table.exists(spark) and quarantine.table(ledger).exists(spark)):
        message = f"pipeline {ledger.pipeline} has never run in {lake.catalog or lake.root}"
        raise NotInQuarantine(message, hint="run the pipeline first, or name its lake with --root or --catalog")
    return Opened(spark, ledger, pipeline.topology, wanted.filters(pipeline.topology))


# --- list ------------------------------------------------------------------------------------------------------------


def show_list(screen: Screen, options: RunOptions, wanted: Wanted, limit: int) -> int:
    """What is in quarantine: groups by what is wrong, and the newest records without their content."""
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - needs pyspark

    with screen.working("reading the quarantine"):
        rows = replays.standing(at_hand.spark, at_hand.ledger).where(at_hand.filters.condition)
        groups = [row.asDict() for row in replays.groups(rows).collect()]
        newest = [row.asDict() for row in replays.newest(rows, limit).select(*_NEWEST).collect()]
    name = at_hand.ledger.pipeline
    if not groups:
        screen.say(f"{name}: nothing of that is in quarantine")
    else:
        columns = ("code", "node", "rule", "records", "open", "first seen", "last seen")
        lines = [
            (
                *(row[of] for of in ("code", "node", "rule", "records", "open")),
                _time(row["first_ms"]),
                _time(row["last_ms"]),
            )
            for row in groups
        ]
        screen.show(table(*columns, title=f"{name}, quarantine", rows=lines, right=columns[3:5]))
        of_record = ("record", "code", "node", "cycle", "state", "message")
        screen.show(table(*of_record, title="newest", rows=[_line(row) for row in newest], right=("cycle",)))
    for row in groups:
        row |= {"first_seen": _time(row.pop("first_ms")), "last_seen": _time(row.pop("last_ms"))}
    screen.result({"pipeline": name, "groups": groups, "newest": newest})
    return failure.OK


def _line(row: Mapping[str, Any]) -> tuple[object, ...]:
    said = str(row["message"]).partition("\n")[0]
    return _record(row), row["code"], row["node"], row["cycle"], row["state"], said


# --- show ------------------------------------------------------------------------------------------------------------


def show_records(screen: Screen, options: RunOptions, wanted: Wanted, limit: int, *, lines: bool) -> int:
    """Records whole; or as lines that `replay --repair` reads."""
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import edits as repairs  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - needs pyspark

    with screen.working("reading the quarantine"):
        rows = replays.standing(at_hand.spark, at_hand.ledger).where(at_hand.filters.condition)
        found = [row.asDict(recursive=True) for row in replays.newest(rows, limit).collect()]
    if not found:
        message = f"none of that is in the quarantine of {at_hand.ledger.pipeline}"
        raise NotInQuarantine(message)
    if lines:
        told: dict[str, dict[str, Any]] = {}
        for row in found:  # a record that several nodes have refused is one line
            told.setdefault(_record(row), row)
        sys.stdout.writelines(
            visible_json(json.dumps(repairs.line(row), ensure_ascii=False)) + "\n" for row in told.values()
        )
        return failure.OK
    for row in found:
        _show_whole(screen, row)
    screen.result({"pipeline": at_hand.ledger.pipeline, "records": [_as_json(row) for row in found]})
    return failure.OK


def _show_whole(screen: Screen, row: Mapping[str, Any]) -> None:
    screen.say(
        Text.assemble(
            (_record(row), "bold"), f"  {row['state']}", ("" if not row["reason"] else f": {visible(row['reason'])}")
        )
    )
    told = {
        "refused by": f"{row['node']}: {row['code']}, {row['message']}",
        "rules": ", ".join(row["rules"] or ()) or None,
        "cycle": row["cycle"],
        "request": row["request"],
        "ingested": _time(row["ingest_time_ms"]),
        "event time": _both(row["event_time_ms"]),
        "stream time": _both(row["stream_time_ms"]),
        "timestamp": _both(row["timestamp_ms"]),
        "headers": ", ".join(f"{one['key']}={_text(one['value'])}" for one in row["headers"] or ()) or None,
        "key": _text(row["key"]),
        "value": _text(row["value"]),
        "row": row["row"],
    }
    for name, what in told.items():
        if what is not None:
            screen.say(Text.assemble((f"  {name:<12}", "dim"), visible(str(what))))


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    from lakestreams.engine.replay import edits as repairs  # noqa: PLC0415 - needs pyspark

    left = ("pipeline", "key", "value", "headers", "newest_attempt", "pending")
    headers = [{"key": one["key"], **repairs.shown("value", one["value"])} for one in row["headers"] or ()]
    plain = {name: what for name, what in row.items() if name not in left}
    return plain | repairs.shown("key", row["key"]) | repairs.shown("value", row["value"]) | {"headers": headers}


# --- replay, discard -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """How records are to be decided on.

    Attributes:
        again: also those that were decided on before.
        dry_run: only tell.
        yes: do not ask.
        reason: why, for whoever looks later.
        repair: the file of repairs.
        set_value: the new value of the one record.
    """

    again: bool = False
    dry_run: bool = False
    yes: bool = False
    reason: str = ""
    repair: Path | None = None
    set_value: str | None = None


def replay(screen: Screen, options: RunOptions, wanted: Wanted, decision: Decision) -> int:
    """Asks for a new attempt at records; the pipeline's next run takes it."""
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import ingest as attempts  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - needs pyspark

    spark, ledger = at_hand.spark, at_hand.ledger
    with screen.working("reading the quarantine"):
        selection = _selection(at_hand, decision)
        chosen = replays.chosen(spark, ledger, selection)
        outlook = attempts.outlook(spark, ledger, at_hand.topology, chosen)
        left_out = replays.left_out(spark, ledger, selection)
        behind = _refused_behind_sources(chosen, at_hand.topology)
    if not outlook:
        raise _nothing_to("replay", ledger, left_out)
    for one in outlook:
        screen.say(_told(one))
    notes = _notes(left_out)
    if behind:
        notes.append(
            f"{behind:,} of them were refused by a step, not by a source: whatever other steps have made of them they "
            "make once more"
        )
    _tell(screen, notes)
    facts: dict[str, Any] = {
        "pipeline": ledger.pipeline, "ok": True, "dry_run": decision.dry_run, "topics": [asdict(one) for one in outlook],
        "left_out": left_out, "notes": notes,
    }  # fmt: skip
    return _decided(
        screen, decision, "replay", facts, lambda: replays.request(spark, ledger, selection, decision.reason)
    )


def discard(screen: Screen, options: RunOptions, wanted: Wanted, decision: Decision) -> int:
    """Notes that records need nothing."""
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - needs pyspark

    spark, ledger = at_hand.spark, at_hand.ledger
    with screen.working("reading the quarantine"):
        selection = _selection(at_hand, decision)
        counted = replays.chosen(spark, ledger, selection).groupBy("topic").count().orderBy("topic").collect()
        left_out = replays.left_out(spark, ledger, selection)
    if not counted:
        raise _nothing_to("discard", ledger, left_out)
    for row in counted:
        screen.say(f"{row['topic']}: {_records(row['count'])}")
    _tell(screen, _notes(left_out))
    facts: dict[str, Any] = {
        "pipeline": ledger.pipeline, "ok": True, "dry_run": decision.dry_run,
        "topics": [{"topic": row["topic"], "records": row["count"]} for row in counted], "left_out": left_out,
        "notes": _notes(left_out),
    }  # fmt: skip
    return _decided(
        screen, decision, "discard", facts, lambda: replays.discard(spark, ledger, selection, decision.reason)
    )


def _decided(screen: Screen, decision: Decision, action: str, facts: dict[str, Any], decide: Any) -> int:
    """Asks on a terminal, decides, and tells."""
    made: list[Request] = []
    if decision.dry_run:
        screen.say("dry run: nothing was written")
    elif not decision.yes and sys.stdin.isatty() and not typer.confirm(f"{action} them?", err=True):
        screen.say("nothing was written")
        screen.result({**facts, "ok": False, "requests": []})
        return failure.FAILED
    else:
        with screen.working("writing"):
            made = decide()
        for one in made:
            next_run = "; the next run takes it" if action == "replay" else ""
            screen.say(f"request {one.number}: {action} {_records(one.records)} of {one.topic}{next_run}")
    screen.result({**facts, "requests": [asdict(one) for one in made]})
    return failure.OK


def _selection(at_hand: Opened, decision: Decision) -> Selection:
    """The records that are meant, with their repairs.

    Raises:
        InvalidOption: if a new value is given, and not for one record.
    """
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay.edits import Repair  # noqa: PLC0415 - as the others

    selection = replays.Selection(at_hand.filters, decision.again)
    if decision.repair is not None:
        return replace(selection, repairs=_repairs(decision.repair))
    if decision.set_value is None:
        return selection
    found = (
        replays.chosen(at_hand.spark, at_hand.ledger, selection)
        .select(*replays.RECORD, "of_attempt")
        .limit(2)
        .collect()
    )
    if len(found) != 1:
        msg = f"--set-value is for one record; {'none' if not found else 'several'} that can be replayed are chosen"
        raise InvalidOption(msg, hint="--at TOPIC-PARTITION@OFFSET names one; --repair FILE mends several")
    topic, partition, offset, attempt = found[0]
    one = Repair(topic, partition, offset, attempt, {"value": decision.set_value.encode("utf-8")})
    return replace(selection, repairs=(one,))


def _repairs(file: Path) -> Any:
    from lakestreams.engine.replay import edits as repairs  # noqa: PLC0415 - needs pyspark

    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror or error}"
        raise ConfigUnreadable(msg, hint="--repair names a file of JSON lines") from None
    except UnicodeDecodeError:
        msg = f"{file} is not UTF-8; bytes that are no text are written as value_base64"
        raise RepairUnfit(msg) from None
    return repairs.parse(text, file.name)


def _refused_behind_sources(chosen: DataFrame, topology: Topology) -> int:
    """How many of the records got as far as a step."""
    names = [source.name for source in topology.sources]
    return chosen.where(~chosen["node"].isin(*names)).count()


def _told(one: Outlook) -> Text:
    text = Text.assemble((one.topic, "bold"), f": {_records(one.records)}")
    if one.refused:
        codes = ", ".join(f"{code} {count:,}" for code, count in one.refused.items())
        count = sum(one.refused.values())
        text.append(f", of which {count:,} would go to quarantine again ({codes})", style="yellow")
    if not one.is_read:
        text.append(", which no source of the pipeline reads any more: they would stay in quarantine", style="yellow")
    elif one.superseded:
        text.append(
            f", of which {one.superseded:,} would be superseded: later records are in their place", style="yellow"
        )
    return text


def _notes(left_out: Mapping[str, int]) -> list[str]:
    return [
        f"{count:,} more fit and are {state}: they are left out"
        + ("" if state in ("requested", "open") else " without --again")
        for state, count in left_out.items()
    ]


def _nothing_to(action: str, ledger: Ledger, left_out: Mapping[str, int]) -> NotInQuarantine:
    fit = ", ".join(f"{count:,} {state}" for state, count in left_out.items())
    message = f"there is nothing to {action} in the quarantine of {ledger.pipeline}: "
    return NotInQuarantine(message + (f"of those that fit: {fit}" if fit else "nothing fits"))


def _tell(screen: Screen, notes: Sequence[str]) -> None:
    for note in notes:
        screen.say(Text.assemble(("note", "yellow"), f"  {note}"))


# --- words -----------------------------------------------------------------------------------------------------------


def _record(row: Mapping[str, Any]) -> str:
    attempt = f"#{row['attempt']}" if row["attempt"] else ""
    return f"{row['topic']}-{row['partition']}@{row['offset']}{attempt}"


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _time(ms: int | None) -> str | None:
    """A moment in UTC; as a number where it lies outside of what a calendar holds."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def _both(ms: int | None) -> str | None:
    return None if ms is None else f"{ms} ({_time(ms)})"


def _text(raw: bytes | bytearray | None) -> str:
    if raw is None:
        return "null"
    try:
        return bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return f"hex {bytes(raw).hex()}"
