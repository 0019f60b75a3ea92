"""A driver's protocol from top to bottom: a run is `drive`.

How it takes a pipeline over is in `claims`, what nodes keep in `keeping`, maintenance and replay in `maintenance`.

A machine is a generator: it yields commands and is sent their answers. The engine carries out with Spark `record`
(`engine.ledger`), `recover`, `ingest_request` (`engine.ingest.ingesting`), `batch` (`engine.ingest.batches`,
`engine.ingest.table_reader`), `taken` (`engine.takeover.tables`), `execute` (`engine.publish.cycle`) and
`close` (`engine.cycles`). The others only say which of these follows which. `query` is Spark's streaming query (`engine.ingest.query`),
and `cycles_meanwhile` is what its driver does (`engine.ingest.kafka`).
`tests/protocol` runs all of them over tables in memory, in every order (decision 0035).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakestreams.engine.ledger import settle
from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.plans import BronzeState, History, Ingest, Plan, Range, StoredState
from lakestreams.engine.protocol import claims, decisions, keeping, unchanged
from lakestreams.engine.protocol.commands import (
    LEDGER,
    Append,
    Begin,
    Evaluate,
    Hand,
    Read,
    Steps,
    Stop,
    Take,
    Taken,
    Together,
    Turn,
    Wait,
)
from lakestreams.kafka.noted import TopicPartition

# --- a run -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipeline:
    """What the machines of a pipeline know from the beginning.

    Attributes:
        topics, outputs: their tables.
        fingerprint: of the configuration.
        most: how many offsets a partition has in a batch.
        remembers: whether nodes keep anything, so that a state is stored.
        semantics: the fingerprint of what decides what they keep.
        stores_in_parallel: whether that is stored while results are published, and not behind the cycle.
        reads_ahead: whether a query goes on reading the topics while cycles run. Delta tables are read before a cycle.
    """

    topics: tuple[str, ...]
    outputs: tuple[str, ...]
    fingerprint: str = "f"
    most: int = 1 << 40
    remembers: bool = False
    semantics: str = "f"
    stores_in_parallel: bool = False
    reads_ahead: bool = False


@dataclass(frozen=True)
class At:
    """How far a driver has come.

    Attributes:
        plan: the last cycle's.
        state: how far that one has come.
        ingests: batches that may hold unplanned rows; the newest says where bronze stands.
        stored: what nodes keep, as it is stored; None: nothing was ever stored.
    """

    plan: Plan | None
    state: decisions.State
    ingests: tuple[Ingest, ...]
    stored: StoredState | None = None


def drive(own: Pipeline, rounds: int) -> Steps[At]:
    """A whole run: takes the pipeline over, closes what a crash left, finishes the open cycle, and goes on."""
    turn, history = yield from start(own)
    at = yield from resume(own, turn, history)
    for _ in range(rounds):
        at = yield from one_round(own, turn, at)
    at = yield from finish(own, turn, at)
    if at.state == "planned":
        code, message = "LS402", "a rule fails; the cycle stays open"
        raise Stop(code, message)
    yield from claims.end(turn)
    return at


def start(own: Pipeline) -> Steps[tuple[Turn, History]]:
    """Looks at every table, then takes the pipeline over."""
    history = yield Read(LEDGER)
    looks = yield Read("tables", history.tables)
    unchanged.require_unchanged(history, looks)
    known = tuple((one.name, one.known) for one in looks)
    quiet = decisions.is_quiet(history, own.fingerprint)
    tables = () if quiet else decisions.sealed(LEDGER, own.topics, own.outputs)
    return (yield from claims.take_over(history, tables, (known, own.fingerprint)))


def resume(own: Pipeline, turn: Turn, history: History) -> Steps[At]:
    """Goes on from what is in the tables: closes an unclosed batch, executes an open plan."""
    newest = yield from recover(turn, history.ingest)
    batches = yield Read("ingests", decisions.oldest_batch(history.plan, newest))
    stored = (yield from keeping.stand(turn, history, own.semantics)) if own.remembers else None
    plan = history.open_plan
    if plan is None:
        return At(history.plan, "none" if history.plan is None else "closed", batches, stored)
    plan = yield from taken(own, turn, plan)
    return (yield from executed(own, turn, At(plan, "planned", batches, stored)))


def recover(turn: Turn, last: Ingest | None) -> Steps[Ingest | None]:
    """Closes a batch that is in bronze and not in the ledger: of new records, or of a replay."""
    before = BronzeState.after([last] if last else [])
    appended = yield Read("tail", before.seq)
    one = decisions.recovered(before, appended)
    if one is None:
        requests = yield Read("requests")
        again = yield Read("attempts", before.seq)
        one = decisions.recovered_request(before, decisions.oldest_request(requests, before.request), again)
    if one is None:
        return last
    yield from record(turn, "ingest", one.seq, one)
    return one


def taken(own: Pipeline, turn: Turn, plan: Plan) -> Steps[Plan]:
    """An open plan as it is executed now; another configuration than its own says first that it takes it over."""
    if not decisions.is_taken_over(plan, own.fingerprint, repeats=False):
        return plan  # no other configuration: nothing is to be asked
    repeats = yield Read("repeats", plan)
    if not decisions.is_taken_over(plan, own.fingerprint, repeats=repeats):
        return plan
    in_doubt = yield Read("doubt", plan)  # a topic does not tell cheaply what it holds of a cycle
    if not decisions.may_take_over(is_out=False, in_doubt=in_doubt):
        message = f"cycle {plan.cycle} may be partly written under another configuration"
        raise Stop("LS504", message)
    is_out = yield Read("out", plan.cycle)
    if not decisions.may_take_over(is_out=is_out, in_doubt=False):
        message = f"cycle {plan.cycle} is partly published under another configuration"
        raise Stop("LS504", message)
    yield Append(
        LEDGER, ("taken", plan.cycle, own.fingerprint), decisions.of_taken(turn.epoch), turn, decisions.fenced("taken")
    )
    return replace(plan, fingerprint=own.fingerprint, taken_over=turn.epoch)


def one_round(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Ingests what was asked for, a batch a request, then up to the ends of now; runs a cycle over each batch."""
    if at.state == "planned":
        return at
    at = yield from ingest_requests(turn, at)
    ends = yield Read("ends")
    if own.reads_ahead:
        return (yield from cycles_meanwhile(own, turn, at, ends))
    seen = None
    while at.state != "planned" and at.ingests != seen:
        seen = at.ingests
        at = yield from ingest(own, turn, at, ends)
        at = yield from cycle(own, turn, at)  # its plan closes the cycle before
    if not (yield Wait()):
        raise _another("ingest", at.ingests[-1].seq)
    return at


def ingest(own: Pipeline, turn: Turn, at: At, ends: Mapping[TopicPartition, int]) -> Steps[At]:
    """Ingests the next batch of what is new in the topics, if anything is."""
    one = yield from next_batch(own, turn, BronzeState.after(at.ingests), ends)
    return at if one is None else replace(at, ingests=(*at.ingests, one))


def next_batch(
    own: Pipeline, turn: Turn, before: BronzeState, ends: Mapping[TopicPartition, int]
) -> Steps[Ingest | None]:
    """The next batch of what lies between where bronze stands and the ends; None if that is nothing."""
    upto = {one: min(end, before.offset(one) + own.most) for one, end in ends.items() if end}
    touched = tuple(topic for topic in own.topics if decisions.news_of(topic, before, upto))
    return (yield from batch(turn, before, touched, upto)) if touched else None


def cycles_meanwhile(own: Pipeline, turn: Turn, at: At, ends: Mapping[TopicPartition, int]) -> Steps[At]:
    """Runs a query up to the ends, and meanwhile a cycle over what it has closed, whenever there is something."""
    yield Begin("query", (own, turn, BronzeState.after(at.ingests), ends))
    goes_on = True
    while goes_on:
        news: Taken = yield Take()
        if news.query == "has failed":
            message = "the query has failed"
            raise Stop("LS503", message)
        goes_on = news.query == "goes on"
        at = yield from cycle(own, turn, replace(at, ingests=(*at.ingests, *news.batches)))
        if at.state == "planned":
            code, message = "LS402", "a rule fails; the cycle stays open, and the query is stopped"
            raise Stop(code, message)
    if not (yield Wait()):
        raise _another("ingest", at.ingests[-1].seq)
    return at


def query(own: Pipeline, turn: Turn, first: BronzeState, ends: Mapping[TopicPartition, int]) -> Steps[None]:
    """Ingests up to the ends, a batch behind another, and hands each over when it is in bronze.

    Args:
        own: how large batches are.
        turn: who writes.
        first: where bronze stood when the query was begun.
        ends: those of the round's start.
    """
    handed: list[Ingest] = []
    while (one := (yield from next_batch(own, turn, decisions.begins(first, handed), ends))) is not None:
        yield Hand(one)
        handed = [one]


def batch(
    turn: Turn, before: BronzeState, topics: tuple[str, ...], ends: Mapping[TopicPartition, int]
) -> Steps[Ingest]:
    """Ingests one batch: an append a topic, in parallel; the row that closes it may come while the cycle over it is computed.

    Args:
        turn: who writes.
        before: where bronze stands.
        topics: those that may have records of it.
        ends: where it ends, as far as that is known.
    """
    if not (yield Wait()):  # of one batch at most the ledger does not know (decision 0003)
        raise _another("ingest", before.seq)
    seq = before.seq + 1
    yield Together(
        tuple(
            Append(
                topic,
                (topic, decisions.news_of(topic, before, ends), seq),
                decisions.of_batch(topic, turn.epoch, seq),
                turn,
                decisions.fenced("bronze"),
            )
            for topic in topics
        )
    )
    appended = yield Read("tail", before.seq)
    one = decisions.closed(before, appended, ends)
    if decisions.may_close_later(one):
        row = ("ingest", seq, one)
        yield Append(LEDGER, row, decisions.of_row("ingest", seq), turn, decisions.fenced("ingest"), pending=True)
    else:
        yield from record(turn, "ingest", seq, one)
    return one


def ingest_requests(turn: Turn, at: At) -> Steps[At]:
    """Ingests each request as one batch."""
    while (one := (yield from ingest_request(turn, BronzeState.after(at.ingests)))) is not None:
        at = replace(at, ingests=(*at.ingests, one))
    return at


def ingest_request(turn: Turn, before: BronzeState) -> Steps[Ingest | None]:
    """Ingests the oldest request that is not yet, as one batch; None if there is none."""
    requests = yield Read("requests")
    number = decisions.oldest_request(requests, before.request)
    if not number:
        return None
    topic = yield Read("requested", number)
    seq = before.seq + 1
    yield Append(
        topic, (topic, number, seq), decisions.of_batch(topic, turn.epoch, seq), turn, decisions.fenced("bronze")
    )
    appended = yield Read("attempts", before.seq)
    one = decisions.closed_request(before, number, appended, seq)
    yield from record(turn, "ingest", seq, one)
    return one


def cycle(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Plans and executes a cycle over what is ingested; its plan closes the one before."""
    number = at.plan.cycle + 1 if at.plan is not None else 1
    plan = settle.next_plan(number, own.fingerprint, Backlog(at.plan, at.ingests), {}, {}, _never_cut)
    if plan is None:
        return at
    row = ("plan", number, plan)  # it is made sure of before anything of the cycle is out
    yield Append(LEDGER, row, decisions.of_row("plan", number), turn, decisions.fenced("plan"), pending=True)
    if own.stores_in_parallel and at.plan is not None and at.state == "executed":  # the plan closes that cycle
        if not (yield Wait()):
            raise _another("plan", number)
        at = replace(at, stored=(yield from keeping.stored(turn, at.plan.cycle, own.semantics, at.stored)))
    ingests = Backlog(plan, at.ingests).open_ingests() or at.ingests[-1:]
    return (yield from executed(own, turn, replace(at, plan=plan, state="planned", ingests=ingests)))


def executed(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Executes the last plan; it stays open if a rule says so."""
    assert at.plan is not None  # noqa: S101 - for mypy: who executes has a plan
    published = yield from execute(own, turn, at.plan, at.stored)
    return replace(at, state="executed") if published else at


def execute(own: Pipeline, turn: Turn, plan: Plan, since: StoredState | None) -> Steps[bool]:
    """Publishes a plan's results, each table in one commit; nothing of it if a rule says so.

    Args:
        own: its outputs are written in their order.
        turn: who writes.
        plan: as it is executed now.
        since: what is stored of the cycles before.

    Returns:
        Whether it was published.
    """
    may_publish = yield Evaluate(plan, since, turn)
    if not (yield Wait()):  # what is out is in the ledger before it, and whoever is not the newest driver stops here
        raise _another("plan", plan.cycle)
    if not may_publish:
        return False
    if own.stores_in_parallel:
        yield from keeping.begin(turn, plan.cycle, own.semantics, since)
    for table in own.outputs:
        yield Append(table, (plan, own.fingerprint), decisions.of_output(table, plan), turn, decisions.fenced("output"))
    if own.stores_in_parallel and not (yield Wait()):
        raise _another("state", plan.cycle)
    return True


def finish(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Closes the last cycle, if all of it is out, and stores what its nodes keep."""
    closed = yield from close(turn, at)
    if closed is at or not own.remembers:
        return closed
    assert at.plan is not None  # noqa: S101 - for mypy: it was closed
    if not own.stores_in_parallel:
        return replace(closed, stored=(yield from keeping.keep(turn, "state", at.plan.cycle, own.semantics, at.stored)))
    return replace(closed, stored=(yield from keeping.stored(turn, at.plan.cycle, own.semantics, at.stored)))


def close(turn: Turn, at: At) -> Steps[At]:
    """Says that the last cycle is done, if all of it is out."""
    if at.plan is None or not decisions.may_become(at.state, "closed"):
        return at
    number = at.plan.cycle
    yield Append(LEDGER, ("done", number, None), decisions.of_row("done", number), turn, decisions.fenced("done"))
    return replace(at, state="closed")


def _never_cut(*_: object) -> Mapping[TopicPartition, Range]:
    message = "a plan that drains its topics has no frontier"
    raise AssertionError(message)


def record(turn: Turn, kind: str, number: int, row: Any) -> Steps[None]:
    """Appends a ledger row of which there is one a number, and makes sure that it is ours: else a newer driver is there."""
    written = yield Append(LEDGER, (kind, number, row), decisions.of_row(kind, number), turn, decisions.fenced(kind))
    existing = None if written else (yield Read("mine", (kind, number)))
    if not decisions.is_own(written=written, existing=existing, mine=True):
        raise _another(kind, number)


def _another(kind: str, number: int) -> Stop:
    return Stop("LS503", f"another driver wrote {kind} {number}")
