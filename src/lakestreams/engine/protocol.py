"""The protocol: what drivers, maintenance and replay requests do next, given what they have read.

Plain Python without Spark, clock or globals. A machine is a generator: it yields commands and is sent their answers. The
engine carries commands out with Spark, or asks single decisions here. `tests/protocol` runs the same machines over tables in
memory, in every order, and removes these functions one at a time (decision 0035). Read it from top to bottom: a run is
`drive`, a maintenance is `trim`, a replay is `request`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final, Literal, NamedTuple, TypeVar

from lakestreams.engine import settle
from lakestreams.engine.plans import (
    ATTEMPTS,
    History,
    Ingest,
    KnownTable,
    Plan,
    Range,
    Standing,
    StoredState,
    Tail,
    TopicPartition,
)

Role = Literal["epoch", "maintain"]
State = Literal["none", "planned", "executed", "left", "closed"]

LEDGER: Final = "ledger"
EPOCHS: Final = "epochs"
REPLAYS: Final = "replays"


# --- commands --------------------------------------------------------------------------------------------------------


class Transaction(NamedTuple):
    """What Delta knows an append by: it skips one whose version is not above the application's last one."""

    application: str
    version: int


@dataclass(frozen=True)
class Turn:
    """Who writes: the newest epoch of a role is the only one that may."""

    role: Role
    epoch: int


@dataclass(frozen=True)
class Read:
    """Look; the answer is what is there. `of` narrows it down; a driver that has sealed says its turn."""

    what: str
    of: Any = None


@dataclass(frozen=True)
class Append:
    """Append in one commit. The answer: whether this very statement has surely written the rows.

    Attributes:
        table: which one.
        row: what is written, as its writer knows it.
        transaction: by which Delta knows it.
        turn: who writes.
        fenced: the statement fails if a newer epoch of the role is there when it begins.
        beside: goes on at once; `Wait` waits for it.
    """

    table: str
    row: Any
    transaction: Transaction
    turn: Turn
    fenced: bool = True
    beside: bool = False


@dataclass(frozen=True)
class Raise:
    """From here on every statement fails at its fence that an older epoch of the role begins."""

    turn: Turn


@dataclass(frozen=True)
class Seal:
    """A change of each table's metadata: statements that are on their way to it fail."""

    tables: tuple[Any, ...]
    turn: Turn


@dataclass(frozen=True)
class Overwrite:
    """Replace a cache; it fails if anything was committed to the table since it began."""

    table: str
    cycle: int
    turn: Turn


@dataclass(frozen=True)
class Evaluate:
    """Compute a cycle from what is stored as of `since` and bronze behind it; whether its rules let it be published."""

    plan: Plan
    since: int
    turn: Turn


@dataclass(frozen=True)
class Delete:
    """Delete from bronze what the cycles up to this one took. The answer: whether all of it."""

    cycle: int


@dataclass(frozen=True)
class Wait:
    """Until what was appended beside is there. The answer: whether it is ours."""


class Stop(Exception):
    """The machine refuses to go on.

    Attributes:
        code: of the error that its user sees.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


Command = Read | Append | Raise | Seal | Overwrite | Evaluate | Delete | Wait
_T = TypeVar("_T")
Steps = Generator[Command, Any, _T]


def carry_out(steps: Steps[_T], hands: Callable[[Command], Any]) -> _T:
    """Runs a machine to its end.

    Args:
        steps: the machine.
        hands: does what a command says, and gives the answer.
    """
    answer = None
    while True:
        try:
            command = steps.send(answer)
        except StopIteration as ended:
            ended_with: _T = ended.value
            return ended_with
        answer = hands(command)


# --- transactions: one for each thing that is written once ------------------------------------------------------------


def of_claim(turn: Turn) -> Transaction:
    """Of two equal claims Delta takes one."""
    return Transaction(turn.role, turn.epoch)


def of_batch(topic: str, epoch: int, seq: int) -> Transaction:
    """Ascends over epochs and over batches in an epoch: no driver takes another one's number (decision 0003)."""
    return Transaction(f"bronze/{topic}", epoch * 2**32 + seq)


def of_row(kind: str, number: int) -> Transaction:
    """Of a ledger row of which there is one a number, whoever writes it: `ingest`, `plan`, `done`, `trim`, `trimmed`."""
    return Transaction(kind, number)


def of_taken(epoch: int) -> Transaction:
    """Of a driver's `taken` row."""
    return Transaction("taken", epoch)


def of_said(what: str, epoch: int) -> Transaction:
    """Of what a driver says once a run: that something was accepted, or that a cycle has stopped or gone on."""
    return Transaction(what, epoch)


def of_loss(epoch: int, nth: int) -> Transaction:
    """Of the nth time that a run writes down expired records."""
    return Transaction(f"loss/{epoch}", nth)


def of_loss_before(topic: str, seq: int) -> Transaction:
    """Of a topic's expired records, written down before the batch behind them."""
    return Transaction(f"loss/{topic}", seq)


def of_events(cycle: int) -> Transaction:
    """Of the event log's rows up to a cycle."""
    return Transaction("events", cycle)


def of_stored(kind: str, epoch: int, cycle: int) -> Transaction:
    """Of `state` and `base` rows: what was lost is stored anew, as of the same cycle, by another epoch."""
    return Transaction(f"{kind}/{epoch}", cycle)


def of_output(name: str, plan: Plan) -> Transaction:
    """Of a cycle's rows in an output; whoever takes a cycle over appends under another name (decision 0002)."""
    return Transaction(f"{name}/{plan.taken_over}" if plan.taken_over else name, plan.cycle)


def of_request(number: int) -> Transaction:
    """Of two requests at once, one decides anew."""
    return Transaction(REPLAYS, number)


def fenced(what: str) -> bool:
    """Whether statements of a kind fail under an older epoch: all but the claim, which decides who is older."""
    return what not in ("epoch", "maintain")


# --- taking over: claim, raise, seal, and only then read ---------------------------------------------------------------


def next_epoch(newest: int) -> int:
    """The epoch that is claimed."""
    return newest + 1


def is_own(*, written: bool, there: Any, mine: Any) -> bool:
    """Whether a row of which there is one a number is ours.

    Delta skips an append of a number that is there already, before it looks at its fence; one that was tried again may have
    been skipped, too. So whatever did not surely write is compared with what is there.
    """
    return written or bool(there == mine)


def is_first(history: History) -> bool:
    """Whether there is nobody to stop: no epoch was ever claimed."""
    return history.epoch == 0


def sealed(ledger: _T, topics: Iterable[_T], outputs: Iterable[_T], others: Iterable[_T] = ()) -> tuple[_T, ...]:
    """The tables that a driver seals: each one that a driver appends to or merges into."""
    return (ledger, *others, *topics, *outputs)


def claim(turn: Turn, row: Any = None) -> Steps[None]:
    """Becomes the only one of a role that may write.

    The ledger decides; the table of epochs is what fences look at.
    """
    written = yield Append(LEDGER, (turn.role, turn.epoch, row), of_claim(turn), turn, fenced(turn.role))
    there = None if written else (yield Read("claim", turn))
    if not is_own(written=written, there=there, mine=turn.epoch):
        message = f"another one of this role claimed epoch {turn.epoch} at the same moment"
        raise Stop("LS503", message)
    yield Raise(turn)


def take_over(history: History, tables: tuple[Any, ...], row: Any = None) -> Steps[tuple[Turn, History]]:
    """Takes a pipeline over: whatever is read behind this, no older driver adds to it (decision 0002).

    Args:
        history: what the ledger said before.
        tables: those of `sealed`.
        row: what the claim says besides.
    """
    turn = Turn("epoch", next_epoch(history.epoch))
    yield from claim(turn, row)
    if not is_first(history):
        yield Seal(tables, turn)
        history = yield Read(LEDGER, turn)
    return turn, history


# --- tables that others have changed (decision 0031) ----------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """A table as a start finds it.

    Attributes:
        name: which one.
        table_id: Delta's id of it; "": it is missing.
        version: its newest one.
        changed: whether its commits since the last claim tell that others have changed it.
        sealed_by: the epoch that has sealed it last.
        has_records: whether it is bronze, and not empty.
    """

    name: str
    table_id: str
    version: int
    changed: bool = False
    sealed_by: int = 0
    has_records: bool = False

    @property
    def known(self) -> KnownTable:
        """What the claim says of it."""
        return KnownTable(self.table_id, self.version)


def table_fault(
    known: KnownTable | None, table_id: str, version: int
) -> Literal["deleted", "replaced", "put back"] | None:
    """What is wrong with a table by id and version; None: nothing, and its commits are looked at.

    Args:
        known: what the newest claim says of it; None: nothing.
        table_id: Delta's; "": the table is missing.
        version: its newest one.
    """
    if known is None:
        return None
    if not table_id:
        return "deleted"
    if table_id != known.table_id:
        return "replaced"
    return "put back" if version < known.version else None


def ledger_lost(epoch: int, sealed_by: int, *, has_records: bool) -> bool:
    """Whether a table shows a later epoch than the ledger knows, or records of which it knows nothing.

    Args:
        epoch: the newest one in the ledger.
        sealed_by: the epoch that has sealed the table last.
        has_records: whether it is bronze, and not empty.
    """
    return sealed_by > epoch or (has_records and not epoch)


def require_unchanged(history: History, looks: Sequence[Look]) -> None:
    """Refuses tables that others have changed, before anything is written."""
    for one in looks:
        if ledger_lost(history.epoch, one.sealed_by, has_records=one.has_records):
            code, message = "LS516", f"the ledger lacks what {one.name} has"
            raise Stop(code, message)
        fault = table_fault(history.tables.get(one.name), one.table_id, one.version)
        if fault is not None or one.changed:
            code, message = "LS514", f"{one.name} is {fault or 'changed'}"
            raise Stop(code, message)


# --- ingest ----------------------------------------------------------------------------------------------------------


def ranges_of(
    before: Standing, found: Mapping[TopicPartition, Tail], ends: Mapping[TopicPartition, int]
) -> tuple[Range, ...]:
    """One range a known topic-partition: from where it stood to where it stands now.

    Args:
        before: where bronze stood.
        found: what it holds behind that.
        ends: up to where the batch was read. Transaction markers, aborted records and compacted tails leave no row.
    """
    ranges = {
        at: Range(*at, position.offset, position.offset, stream_time_ms=position.stream_time_ms)
        for at, position in before.positions.items()
    }
    for at, part in found.items():
        start = before.positions[at].offset if at in before.positions else part.range.from_offset
        ranges[at] = replace(part.range, from_offset=start)
    for at, end in ends.items():
        known = ranges.get(at) or Range(*at, end, end)
        ranges[at] = replace(known, to_offset=max(known.to_offset, end))
    return tuple(ranges[at] for at in sorted(ranges))


def attempt_ranges_of(before: Standing, seq: int, found: Mapping[TopicPartition, Tail]) -> tuple[Range, ...]:
    """The same of a replay's batch: all empty but that of the attempts; stream times as they are now (decision 0020)."""
    ranges = {
        at: Range(*at, position.offset, position.offset, stream_time_ms=position.stream_time_ms)
        for at, position in before.positions.items()
    }
    for at, tail in found.items():
        known = ranges.get(at) or Range(*at, 0, 0)
        ranges[at] = replace(known, stream_time_ms=max(known.stream_time_ms, tail.range.stream_time_ms))
    if found:
        at = (next(topic for topic, _ in found), ATTEMPTS)
        parts = [tail.range for tail in found.values()]
        ranges[at] = replace(
            reduce(lambda one, other: one.beside(other), parts),
            partition=ATTEMPTS,
            from_offset=before.positions[at].offset if at in before.positions else seq,
            to_offset=seq + 1,
            stream_time_ms=max(part.stream_time_ms for part in parts),
        )
    return tuple(ranges[at] for at in sorted(ranges))


def closed(before: Standing, found: Mapping[TopicPartition, Tail], ends: Mapping[TopicPartition, int]) -> Ingest:
    """What the ledger's row says that closes a batch; the last request stands in it, too."""
    return Ingest(before.seq + 1, before.seq + 1, ranges_of(before, found, ends), before.request)


def closed_request(before: Standing, number: int, found: Mapping[TopicPartition, Tail], seq: int) -> Ingest:
    """The same of a replay's batch: the row names its request, so that it is ingested once."""
    return Ingest(seq, before.seq + 1, attempt_ranges_of(before, seq, found), number)


def recovered(before: Standing, found: Mapping[TopicPartition, Tail]) -> Ingest | None:
    """The batch that a crash left in bronze without a ledger row; None if there is none."""
    if not found:
        return None
    seq = max(part.seq for part in found.values())
    return Ingest(seq, before.seq + 1, ranges_of(before, found, {}), before.request)


def recovered_request(before: Standing, oldest: int, found: Mapping[TopicPartition, Tail]) -> Ingest | None:
    """The same of attempts. Requests are taken in their order, a batch each: so it is the oldest that is not ingested."""
    if not oldest or not found:
        return None
    return closed_request(before, oldest, found, max(part.seq for part in found.values()))


def oldest_request(requests: Sequence[int], ingested: int) -> int:
    """The request that is ingested next; 0: none is left.

    Args:
        requests: all of them.
        ingested: the last one that the newest `ingest` row names.
    """
    return min((one for one in requests if one > ingested), default=0)


def oldest_batch(plan: Plan | None, newest: Ingest | None) -> int:
    """From which batch on a driver must know them: the newest says where bronze stands, whatever the plan has taken."""
    return min(plan.seq_from if plan else 0, newest.seq if newest else 0)


def record(turn: Turn, kind: str, number: int, row: Any) -> Steps[None]:
    """Appends a ledger row of which there is one a number, and makes sure that it is ours: else a newer driver is there."""
    written = yield Append(LEDGER, (kind, number, row), of_row(kind, number), turn, fenced(kind))
    there = None if written else (yield Read("mine", (kind, number)))
    if not is_own(written=written, there=there, mine=True):
        message = f"another driver wrote {kind} {number}"
        raise Stop("LS503", message)


# --- cycles ------------------------------------------------------------------------------------------------------------


def done_cycle(done: int, plan: int) -> int:
    """The last cycle that is done: a plan says that the one before it is."""
    return max(done, plan - 1, 0)


_BEFORE: Final[Mapping[State, tuple[State, ...]]] = {
    "planned": ("none", "closed"),
    "executed": ("planned",),
    "left": ("executed",),
    "closed": ("executed", "left"),
}


def states_before(following: State) -> tuple[State, ...]:
    """From which states a cycle goes on to another: what was not executed is never closed."""
    return _BEFORE[following]


def may_become(state: State, following: State) -> bool:
    """Whether a cycle may go on from one state to another."""
    return state in states_before(following)


def is_taken_over(plan: Plan, fingerprint: str, *, repeats: bool) -> bool:
    """Whether executing an open plan would give other rows than its own configuration does."""
    return plan.fingerprint != fingerprint and not repeats


def may_take_over(*, is_out: bool, in_doubt: bool) -> bool:
    """Whether another configuration may execute a cycle: only if nothing of it is out, or may be in a topic."""
    return not is_out and not in_doubt


# --- what a driver remembers, and what maintenance may delete (decision 0015) --------------------------------------------


def reaches(trim: Plan | None, stored: StoredState | None) -> bool:
    """Whether a stored state can be built on: bronze has all behind it."""
    return stored is not None and stored.cycle >= (trim.cycle if trim is not None else 0)


def holds_still(before: History, after: History) -> bool:
    """Whether nothing was trimmed between a driver's `state` row and its look behind that."""
    return (before.trim, before.base) == (after.trim, after.base)


def trim_target(plans: Sequence[int], done: int, stored: int) -> int:
    """Up to which cycle bronze may be trimmed: those that are done, and lie before what the driver builds on; 0: none."""
    return max((cycle for cycle in plans if cycle <= min(done, stored)), default=0)


def may_delete(target: int, stored: int) -> bool:
    """Whether the driver builds on nothing that lies before; asked once more behind the `trim` row."""
    return stored >= target


# --- a run -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipeline:
    """What the machines of a pipeline know from the beginning.

    Attributes:
        topics, outputs: their tables.
        fingerprint: of the configuration.
        remembers: whether nodes keep anything, so that a state is stored.
    """

    topics: tuple[str, ...]
    outputs: tuple[str, ...]
    fingerprint: str = "f"
    remembers: bool = False


@dataclass(frozen=True)
class At:
    """How far a driver has come.

    Attributes:
        plan: the last cycle's.
        state: how far that one has come.
        ingests: batches that may hold unplanned rows; the newest says where bronze stands.
        stored: the cycle as of which what nodes keep is stored.
        slot: where.
    """

    plan: Plan | None
    state: State
    ingests: tuple[Ingest, ...]
    stored: int = 0
    slot: str = ""


def drive(own: Pipeline, rounds: int) -> Steps[At]:
    """A whole run: takes the pipeline over, closes what a crash left, finishes the open cycle, and goes on."""
    turn, history = yield from start(own)
    at = yield from resume(own, turn, history)
    for _ in range(rounds):
        if at.state != "planned":
            at = yield from ingest(own, turn, at)
            at = yield from cycle(own, turn, at)  # its plan closes the cycle of the round before
    at = yield from finish(own, turn, at)
    if at.state == "planned":
        code, message = "LS402", "a rule fails; the cycle stays open"
        raise Stop(code, message)
    return at


def start(own: Pipeline) -> Steps[tuple[Turn, History]]:
    """Looks at every table, then takes the pipeline over."""
    history = yield Read(LEDGER)
    looks = yield Read("tables", history.tables)
    require_unchanged(history, looks)
    known = tuple((one.name, one.known) for one in looks)
    return (yield from take_over(history, sealed(LEDGER, own.topics, own.outputs), known))


def resume(own: Pipeline, turn: Turn, history: History) -> Steps[At]:
    """Goes on from what is in the tables: closes an unclosed batch, executes an open plan."""
    newest = yield from recover(turn, history.ingest)
    batches = yield Read("ingests", oldest_batch(history.plan, newest))
    stored = yield from stand(turn, history) if own.remembers else nothing_kept()
    plan = history.open_plan
    if plan is None:
        return At(history.plan, "none" if history.plan is None else "closed", batches, *stored)
    plan = yield from taken(own, turn, plan)
    return (yield from execute(own, turn, At(plan, "planned", batches, *stored)))


def recover(turn: Turn, last: Ingest | None) -> Steps[Ingest | None]:
    """Closes a batch that is in bronze and not in the ledger: of new records, or of a replay."""
    before = Standing.after([last] if last else [])
    found = yield Read("tail", before.seq)
    one = recovered(before, found)
    if one is None:
        requests = yield Read("requests")
        again = yield Read("attempts", before.seq)
        one = recovered_request(before, oldest_request(requests, before.request), again)
    if one is None:
        return last
    yield from record(turn, "ingest", one.seq, one)
    return one


def taken(own: Pipeline, turn: Turn, plan: Plan) -> Steps[Plan]:
    """An open plan as it is executed now; another configuration than its own says first that it takes it over."""
    if not is_taken_over(plan, own.fingerprint, repeats=False):
        return plan
    is_out = yield Read("out", plan.cycle)
    if not may_take_over(is_out=is_out, in_doubt=False):
        message = f"cycle {plan.cycle} is partly published under another configuration"
        raise Stop("LS504", message)
    yield Append(LEDGER, ("taken", plan.cycle, own.fingerprint), of_taken(turn.epoch), turn, fenced("taken"))
    return replace(plan, fingerprint=own.fingerprint, taken_over=turn.epoch)


def ingest(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Ingests what was asked for from quarantine, a batch a request, then what is new in the topics."""
    at = yield from ingest_requests(turn, at)
    ends = yield Read("ends")
    before = Standing.after(at.ingests)
    seq = before.seq + 1
    touched = [topic for topic in own.topics if ends.get((topic, 0), 0) > before.offset((topic, 0))]
    if not touched:
        return at
    for topic in touched:
        rows = (topic, before.offset((topic, 0)), ends[topic, 0], seq)
        yield Append(topic, rows, of_batch(topic, turn.epoch, seq), turn, fenced("bronze"))
    found = yield Read("tail", before.seq)
    one = closed(before, found, {at: end for at, end in ends.items() if end})
    # of markers alone bronze has no row: nobody but the ledger knows that they were read (decision 0024)
    beside = any(part.records for part in one.ranges)
    if not beside:
        yield from record(turn, "ingest", one.seq, one)
    else:
        row = ("ingest", one.seq, one)
        yield Append(LEDGER, row, of_row("ingest", one.seq), turn, fenced("ingest"), beside=True)
    return replace(at, ingests=(*at.ingests, one))


def ingest_requests(turn: Turn, at: At) -> Steps[At]:
    """Ingests each request as one batch."""
    while True:
        before = Standing.after(at.ingests)
        requests = yield Read("requests")
        number = oldest_request(requests, before.request)
        if not number:
            return at
        topic = yield Read("requested", number)
        seq = before.seq + 1
        yield Append(topic, (topic, number, seq), of_batch(topic, turn.epoch, seq), turn, fenced("bronze"))
        found = yield Read("attempts", before.seq)
        one = closed_request(before, number, found, seq)
        yield from record(turn, "ingest", seq, one)
        at = replace(at, ingests=(*at.ingests, one))


def cycle(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Plans and executes a cycle over what is ingested; its plan closes the one before."""
    number = at.plan.cycle + 1 if at.plan is not None else 1
    plan = settle.next_plan(number, own.fingerprint, settle.Backlog(at.plan, at.ingests), {}, {}, _never_cut)
    if plan is not None:
        yield from record(turn, "plan", number, plan)
        ingests = settle.Backlog(plan, at.ingests).open_ingests() or at.ingests[-1:]
        at = yield from execute(own, turn, replace(at, plan=plan, state="planned", ingests=ingests))
    if not (yield Wait()):
        message = "another driver closed the batch"
        raise Stop("LS503", message)
    return at


def execute(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Publishes a plan's results, each table in one commit; nothing of it if a rule says so."""
    plan = at.plan
    assert plan is not None  # noqa: S101 - for mypy: who executes has a plan
    if not (yield Evaluate(plan, at.stored, turn)):
        return at
    for table in own.outputs:
        yield Append(table, (plan, own.fingerprint), of_output(table, plan), turn, fenced("output"))
    return replace(at, state="executed")


def finish(own: Pipeline, turn: Turn, at: At) -> Steps[At]:
    """Closes the last cycle, if all of it is out, and stores what its nodes keep."""
    if at.plan is None or not may_become(at.state, "closed"):
        return at
    number = at.plan.cycle
    yield Append(LEDGER, ("done", number, None), of_row("done", number), turn, fenced("done"))
    at = replace(at, state="closed")
    if not own.remembers:
        return at
    slot = "state b" if at.slot == "state a" else "state a"
    yield Overwrite(slot, number, turn)
    yield from store(turn, "state", number, slot)
    return replace(at, stored=number, slot=slot)


def store(turn: Turn, kind: str, cycle: int, slot: str) -> Steps[None]:
    """Says in the ledger where what nodes keep lies from now on."""
    row = StoredState(cycle, "f", slot, 0, ())
    yield Append(LEDGER, (kind, cycle, row), of_stored(kind, turn.epoch, cycle), turn, fenced(kind))


def nothing_kept() -> Steps[tuple[int, str]]:
    """A pipeline whose nodes keep nothing reads no state."""
    yield from ()
    return 0, ""


def stand(turn: Turn, history: History) -> Steps[tuple[int, str]]:
    """What a driver builds on: what was stored last, else the base, which it says before it looks once more."""
    last = history.state
    if last is None and history.trim is None:
        return 0, ""
    if last is not None and reaches(history.trim, last) and (yield Read("holds", (last.slot, last.cycle))):
        return last.cycle, last.slot
    while True:
        history = yield Read(LEDGER)
        base = history.base
        if history.trim is None:
            base = StoredState(0, "f", "", 0, ())
        elif base is None or not reaches(history.trim, base) or not (yield Read("holds", (base.slot, base.cycle))):
            message = "what nodes keep is missing, and bronze is trimmed"
            raise Stop("LS510", message)
        yield from store(turn, "state", base.cycle, base.slot)
        after = yield Read(LEDGER)
        if holds_still(history, after):
            return base.cycle, base.slot


def _never_cut(*_: object) -> Mapping[TopicPartition, Range]:
    message = "a plan that drains its topics has no frontier"
    raise AssertionError(message)


# --- maintenance and replay ----------------------------------------------------------------------------------------------


def trim(own: Pipeline) -> Steps[None]:
    """Trims bronze beside a running driver: base, `trim` row, deletes, `trimmed` row; a crash is finished by the next one."""
    history = yield Read(LEDGER)
    if not (yield from target_of(own, history)) and not unfinished(history):
        return
    turn = Turn("maintain", next_epoch(history.maintenance))
    yield from claim(turn)
    yield Seal(sealed(LEDGER, (), ()), turn)  # all that counts of it stands there
    history = yield Read(LEDGER, turn)
    target = yield from target_of(own, history)
    if target:
        if not own.remembers or (yield from based(turn, history, target)):
            yield Append(LEDGER, ("trim", target, target), of_row("trim", target), turn, fenced("trim"))
        history = yield Read(LEDGER)
    target = unfinished(history)
    if target and (not own.remembers or may_delete(target, cycle_of(history.state))) and (yield Delete(target)):
        yield Append(LEDGER, ("trimmed", target, target), of_row("trimmed", target), turn, fenced("trimmed"))


def target_of(own: Pipeline, history: History) -> Steps[int]:
    """Up to which cycle may be trimmed what is not yet; 0: nothing."""
    plans = yield Read("plans", cycle_of(history.trim))
    stored = cycle_of(history.state) if own.remembers else history.done_cycle
    return trim_target(plans, history.done_cycle, stored)


def unfinished(history: History) -> int:
    """A trim that was begun and not finished; 0: there is none."""
    return cycle_of(history.trim) if cycle_of(history.trim) > cycle_of(history.trimmed) else 0


def based(turn: Turn, history: History, target: int) -> Steps[bool]:
    """Stores what nodes keep as of the target, before anything is deleted that it is made of; whether that was done."""
    base = history.base
    if base is not None and not (yield Read("holds", (base.slot, base.cycle))):
        base = None
    if base is None and history.trim is not None:
        return False
    yield Read("bronze", (cycle_of(base), target))
    slot = "base b" if base is not None and base.slot == "base a" else "base a"
    yield Overwrite(slot, target, turn)
    yield from store(turn, "base", target, slot)
    after = yield Read(LEDGER)  # a driver may have begun to build on the base before
    return may_delete(target, cycle_of(after.state))


def cycle_of(one: Plan | StoredState | None) -> int:
    """The cycle as of which something is; 0: it is not there."""
    return one.cycle if one is not None else 0


def request() -> Steps[bool]:
    """Asks for a new attempt at what is open in quarantine; whether it was this one that did."""
    number = 0
    while True:
        newest = max((yield Read("requests")), default=0)
        number = max(number, newest) + 1
        if not (yield Read("open")):
            return False
        yield Append(REPLAYS, number, of_request(number), Turn("epoch", 0), fenced=False)
        if (yield Read("landed", number)):
            return True
