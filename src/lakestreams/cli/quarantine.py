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

from lakestreams.cli.quarantine_options import Decision, Edits, Wanted
from lakestreams.cli.screen import Screen, table
from lakestreams.errors import ConfigUnreadable, InvalidOption, NotInQuarantine, RepairUnfit
from lakestreams.run import failure
from lakestreams.run.options import PipelineOptions
from lakestreams.run.runner import load, open_lake, open_session
from lakestreams.times import alone, both
from lakestreams.visible import visible, visible_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.replay.deciding import Selection
    from lakestreams.engine.replay.ingest import Outlook
    from lakestreams.engine.replay.quarantined import Filters
    from lakestreams.engine.replay.requests import Request
    from lakestreams.registry.options import RegistryOptions
    from lakestreams.topology.topology import Topology

_NEWEST = ("topic", "partition", "offset", "attempt", "code", "node", "rules", "cycle", "state", "message")


@dataclass(frozen=True)
class QuarantineAtHand:
    """A pipeline's quarantine, at hand."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    registry: RegistryOptions | None
    filters: Filters


def _open(screen: Screen, options: PipelineOptions, wanted: Wanted) -> QuarantineAtHand:
    lake, (pipeline,) = open_lake(options.lake), load(options.files, screen.secrets)
    filters = wanted.filters(pipeline.topology)  # before a session is started: it may refuse an option
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=True, lake=lake, progress=screen.say)
    from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415 - needs pyspark

    ledger = Ledger(lake.naming(pipeline.topology), pipeline.topology.name)
    ledger.require_run(spark, NotInQuarantine)
    return QuarantineAtHand(spark, ledger, pipeline.topology, pipeline.registry, filters)


# --- list ------------------------------------------------------------------------------------------------------------


def show_list(screen: Screen, options: PipelineOptions, wanted: Wanted, limit: int) -> int:
    """What is in quarantine: groups by what is wrong, and the newest records without their content."""
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import quarantined  # noqa: PLC0415 - needs pyspark

    with screen.working("reading the quarantine"):
        rows = quarantined.with_decisions(at_hand.spark, at_hand.ledger).where(at_hand.filters.condition)
        groups = [row.asDict() for row in quarantined.groups(rows).collect()]
        newest = [row.asDict() for row in quarantined.newest(rows, limit).select(*_NEWEST).collect()]
    name = at_hand.ledger.pipeline
    if not groups:
        screen.say(f"{name}: no such record is in quarantine")
    else:
        columns = ("code", "node", "rule", "records", "open", "first seen", "last seen")
        lines = [
            (
                *(row[of] for of in ("code", "node", "rule", "records", "open")),
                alone(row["first_ms"]),
                alone(row["last_ms"]),
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


def _line(row: Mapping[str, Any]) -> list[object]:
    said = str(row["message"]).partition("\n")[0]
    return [_record(row), row["code"], row["node"], row["cycle"], row["state"], said]


# --- show ------------------------------------------------------------------------------------------------------------


def show_records(screen: Screen, options: PipelineOptions, wanted: Wanted, limit: int, *, lines: bool) -> int:
    """Records whole; or as lines that `replay --repair` reads."""
    if lines:
        screen.console = screen.errors  # stdout is for the lines alone: they go into a file
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import edits as repairs  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay import quarantined  # noqa: PLC0415 - needs pyspark

    with screen.working("reading the quarantine"):
        rows = quarantined.with_decisions(at_hand.spark, at_hand.ledger).where(at_hand.filters.condition)
        records = [row.asDict(recursive=True) for row in quarantined.newest(rows, limit).collect()]
    if not records:
        message = f"no such record is in the quarantine of {at_hand.ledger.pipeline}"
        raise NotInQuarantine(message)
    if lines:
        by_record: dict[str, dict[str, Any]] = {}
        for row in records:  # a record that several nodes have refused is one line
            by_record.setdefault(_record(row), row)
        for row in by_record.values():
            if not screen.out(visible_json(json.dumps(repairs.line(row), ensure_ascii=False)) + "\n"):
                break
        return failure.OK
    for row in records:
        _show_whole(screen, row)
    screen.result({"pipeline": at_hand.ledger.pipeline, "records": [_as_json(row) for row in records]})
    return failure.OK


def _show_whole(screen: Screen, row: Mapping[str, Any]) -> None:
    screen.say(
        Text.assemble(
            (_record(row), "bold"), f"  {row['state']}", ("" if not row["reason"] else f": {visible(row['reason'])}")
        )
    )
    lines = {
        "refused by": f"{row['node']}: {row['code']}, {row['message']}",
        "rules": ", ".join(row["rules"] or ()) or None,
        "cycle": row["cycle"],
        "request": row["request"],
        "ingested": _moment(row["ingest_time_ms"]),
        "event time": _moment(row["event_time_ms"]),
        "stream time": _moment(row["stream_time_ms"]),
        "timestamp": _moment(row["timestamp_ms"]),
        "headers": ", ".join(f"{one['key']}={_text(one['value'])}" for one in row["headers"] or ()) or None,
        "key": _text(row["key"]),
        "value": _text(row["value"]),
        "row": row["row"],
    }
    for name, what in lines.items():
        if what is not None:
            screen.say(Text.assemble((f"  {name:<12}", "dim"), visible(str(what))))


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    from lakestreams.engine.replay import edits as repairs  # noqa: PLC0415 - needs pyspark

    left = ("pipeline", "key", "value", "headers", "newest_attempt", "pending")
    headers = [{"key": one["key"], **repairs.shown("value", one["value"])} for one in row["headers"] or ()]
    plain = {name: what for name, what in row.items() if name not in left}
    return plain | repairs.shown("key", row["key"]) | repairs.shown("value", row["value"]) | {"headers": headers}


# --- replay, discard -------------------------------------------------------------------------------------------------


def replay(screen: Screen, options: PipelineOptions, wanted: Wanted, edits: Edits, decision: Decision) -> int:
    """Asks for a new attempt at records; the pipeline's next run takes it."""
    repairs = None if edits.repair is None else _repairs(edits.repair)
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import deciding  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay import ingest as attempts  # noqa: PLC0415 - needs pyspark

    spark, ledger = at_hand.spark, at_hand.ledger
    with screen.working("reading the quarantine"):
        selection = _edited(at_hand, deciding.Selection(at_hand.filters, decision.again), edits, repairs)
        chosen = deciding.chosen(spark, ledger, selection)
        outlook = attempts.outlook(spark, ledger, at_hand.topology, chosen, at_hand.registry)
        left_out = deciding.left_out(spark, ledger, selection)
        behind = _refused_behind_sources(chosen, at_hand.topology)
    if not outlook:
        raise _nothing_to("replay", ledger, left_out)
    for one in outlook:
        screen.say(_outlook_text(one))
    notes = _notes(left_out)
    if behind:
        notes.append(
            f"{behind:,} of them were refused by a step, not by a source: other steps will process them a second time"
        )
    _tell(screen, notes)
    facts: dict[str, Any] = {
        "pipeline": ledger.pipeline, "ok": True, "dry_run": decision.dry_run, "topics": [asdict(one) for one in outlook],
        "left_out": left_out, "notes": notes,
    }  # fmt: skip
    return _decided(
        screen, decision, "replay", facts, lambda: deciding.request(spark, ledger, selection, decision.reason)
    )


def discard(screen: Screen, options: PipelineOptions, wanted: Wanted, decision: Decision) -> int:
    """Notes that records need nothing."""
    at_hand = _open(screen, options, wanted)
    from lakestreams.engine.replay import deciding  # noqa: PLC0415 - needs pyspark

    spark, ledger = at_hand.spark, at_hand.ledger
    with screen.working("reading the quarantine"):
        selection = deciding.Selection(at_hand.filters, decision.again)
        counted = deciding.chosen(spark, ledger, selection).groupBy("topic").count().orderBy("topic").collect()
        left_out = deciding.left_out(spark, ledger, selection)
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
        screen, decision, "discard", facts, lambda: deciding.discard(spark, ledger, selection, decision.reason)
    )


def _decided(screen: Screen, decision: Decision, action: str, facts: dict[str, Any], decide: Any) -> int:
    """Asks on a terminal, decides, and tells."""
    requests: list[Request] = []
    if decision.dry_run:
        screen.say("dry run: nothing was written")
    elif not decision.yes and sys.stdin.isatty() and not typer.confirm(f"{action} them?", err=True):
        screen.say("nothing was written")
        screen.result({**facts, "ok": False, "requests": []})
        return failure.FAILED
    else:
        with screen.working("writing"):
            requests = decide()
        for one in requests:
            next_run = "; the next run takes it" if action == "replay" else ""
            screen.say(f"request {one.number}: {action} {_records(one.records)} of {one.topic}{next_run}")
    screen.result({**facts, "requests": [asdict(one) for one in requests]})
    return failure.OK


def _edited(at_hand: QuarantineAtHand, selection: Selection, edits: Edits, repairs: Any) -> Selection:
    """The records that are meant, with their repairs.

    Raises:
        InvalidOption: if a new value is given, and not for one record.
    """
    from lakestreams.engine.replay import deciding  # noqa: PLC0415 - needs pyspark
    from lakestreams.engine.replay import requests as replays  # noqa: PLC0415 - as the others
    from lakestreams.engine.replay.edits import Repair  # noqa: PLC0415 - as the others

    if repairs is not None:
        return replace(selection, repairs=repairs)
    if edits.set_value is None:
        return selection
    rows = (
        deciding.chosen(at_hand.spark, at_hand.ledger, selection)
        .select(*replays.RECORD, "of_attempt")
        .limit(2)
        .collect()
    )
    if len(rows) != 1:
        msg = f"--set-value takes exactly one record; the selection has {'none' if not rows else 'several'} to replay"
        raise InvalidOption(msg, hint="--at TOPIC-PARTITION@OFFSET names one; --repair FILE corrects several")
    topic, partition, offset, attempt = rows[0]
    one = Repair(topic, partition, offset, attempt, {"value": edits.set_value.encode("utf-8")})
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


def _outlook_text(one: Outlook) -> Text:
    text = Text.assemble((one.topic, "bold"), f": {_records(one.records)}")
    if one.refused:
        codes = ", ".join(f"{code} {count:,}" for code, count in one.refused.items())
        count = sum(one.refused.values())
        text.append(f", of which {count:,} would go to quarantine again ({codes})", style="yellow")
    if not one.is_read:
        text.append(", which no source of the pipeline reads any more: they would stay in quarantine", style="yellow")
    elif one.superseded:
        text.append(f", of which {one.superseded:,} would be superseded by later records", style="yellow")
    return text


def _notes(left_out: Mapping[str, int]) -> list[str]:
    return [
        f"{count:,} more match but are {state}: they are left out"
        + ("" if state in ("requested", "open") else " without --again")
        for state, count in left_out.items()
    ]


def _nothing_to(action: str, ledger: Ledger, left_out: Mapping[str, int]) -> NotInQuarantine:
    fit = ", ".join(f"{count:,} {state}" for state, count in left_out.items())
    message = f"there is nothing to {action} in the quarantine of {ledger.pipeline}: "
    return NotInQuarantine(message + (f"of the records that match: {fit}" if fit else "no record matches"))


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


def _moment(ms: int | None) -> str | None:
    return None if ms is None else both(ms)


def _text(raw: bytes | bytearray | None) -> str:
    if raw is None:
        return "null"
    try:
        return bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return f"hex {bytes(raw).hex()}"
