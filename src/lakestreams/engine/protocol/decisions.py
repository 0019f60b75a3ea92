"""Every decision that exactly-once follows from, each a function: by what Delta knows a write, who is newer, what is left to do.

The machines and the engine call them by this module's name: a test that replaces one removes that guard for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final, Literal, TypeVar

from lakestreams.engine.ledger.plans import (
    REPLAYED,
    AppendedRange,
    BronzeState,
    History,
    Ingest,
    Plan,
    Range,
    StoredState,
)
from lakestreams.engine.protocol.commands import REPLAYS, Transaction, Turn
from lakestreams.kafka.noted import TopicPartition

State = Literal["none", "planned", "executed", "left", "closed"]
_T = TypeVar("_T")
_EPOCHS: Final = 2**32


# --- transactions: one for each thing that is written once ------------------------------------------------------------


def of_claim(turn: Turn) -> Transaction:
    """Of two equal claims Delta takes one."""
    return Transaction(turn.role, turn.epoch)


def of_batch(topic: str, epoch: int, seq: int) -> Transaction:
    """Ascends over epochs and over batches in an epoch: no driver takes another one's number (decision 0003)."""
    return Transaction(f"bronze/{topic}", epoch * _EPOCHS + seq)


def epoch_in(number: int) -> int:
    """The epoch by which a batch was appended, of the number of its transaction."""
    return number // _EPOCHS


def of_row(kind: str, number: int) -> Transaction:
    """Of a ledger row of which there is one a number, whoever writes it: `ingest`, `plan`, `done`, `trim`, `trimmed`."""
    return Transaction(kind, number)


def of_taken(epoch: int) -> Transaction:
    """Of a driver's `taken` row."""
    return Transaction("taken", epoch)


def of_said(what: str, epoch: int) -> Transaction:
    """Of what a driver says once a run: that something was accepted, that a cycle has stopped or gone on, that it has ended."""
    return Transaction(what, epoch)


def of_loss(epoch: int, nth: int) -> Transaction:
    """Of the nth time that a run writes down expired records."""
    return Transaction(f"loss/{epoch}", nth)


def of_loss_before(topic: str, seq: int) -> Transaction:
    """Of a topic's expired records, written down before the batch behind them."""
    return Transaction(f"loss/{topic}", seq)


def of_schema(name: int | str) -> Transaction:
    """Of the schema of a registry's id or GUID."""
    return Transaction(f"schema/{name}", 1)


def of_events(cycle: int) -> Transaction:
    """Of the event log's rows up to a cycle."""
    return Transaction("events", cycle)


def of_stored(kind: str, epoch: int, cycle: int) -> Transaction:
    """Of `state` and `base` rows: what was lost is stored again, as of the same cycle, by another epoch."""
    return Transaction(f"{kind}/{epoch}", cycle)


def of_output(name: str, plan: Plan) -> Transaction:
    """Of a cycle's rows in an output; whoever takes a cycle over appends under another name (decision 0002)."""
    return Transaction(f"{name}/{plan.taken_over}" if plan.taken_over else name, plan.cycle)


def of_request(number: int) -> Transaction:
    """Of two requests at once, one decides again."""
    return Transaction(REPLAYS, number)


def fenced(what: str) -> bool:
    """Whether statements of a kind fail under an older epoch: all but the claim, which decides who is older."""
    return what not in ("epoch", "maintain")


# --- taking over: claim, raise, seal, and only then read ---------------------------------------------------------------


def next_epoch(newest: int) -> int:
    """The epoch that is claimed."""
    return newest + 1


def is_own(*, written: bool, existing: Any, mine: Any) -> bool:
    """Whether a row of which there is one a number is ours.

    Delta skips an append of a number that is there already, before it looks at its fence; one that was tried again may have
    been skipped, too. So whatever did not surely write is compared with what is there.
    """
    return written or bool(existing == mine)


def is_first(history: History) -> bool:
    """Whether there is nobody to stop: no epoch was ever claimed."""
    return history.epoch == 0


def is_quiet(history: History, configuration: str) -> bool:
    """Whether no older driver can have anything on its way to the tables of a configuration.

    The newest one has said that it ended, behind all that it wrote. Those before it were stopped by seals, its own or those of
    one like it, since drivers of one configuration write to the same tables.
    """
    last = history.claim
    return (
        last is not None
        and last.has_ended
        and last.epoch == history.epoch
        and bool(configuration)
        and last.configuration == configuration
    )


def sealed(ledger: _T, topics: Iterable[_T], outputs: Iterable[_T], others: Iterable[_T] = ()) -> tuple[_T, ...]:
    """The tables that a driver seals: each one that a driver appends to or merges into."""
    return (ledger, *others, *topics, *outputs)


# --- ingest ----------------------------------------------------------------------------------------------------------


def news_of(topic: str, before: BronzeState, ends: Mapping[TopicPartition, int]) -> tuple[tuple[int, int, int], ...]:
    """What a batch has of a topic, as far as its ends are known: partition, first offset, end."""
    own = ((at[1], before.offset(at), end) for at, end in sorted(ends.items()) if at[0] == topic)
    return tuple(one for one in own if one[2] > one[1])


def begins(first: BronzeState, handed: Sequence[Ingest]) -> BronzeState:
    """Where a query's next batch begins: behind the last one that it has closed, however far cycles and the ledger are.

    Args:
        first: where bronze stood when the query was begun.
        handed: what it has closed since, the newest last.
    """
    return BronzeState.after(handed) if handed else first


def ranges_of(
    before: BronzeState, appended: Mapping[TopicPartition, AppendedRange], ends: Mapping[TopicPartition, int]
) -> tuple[Range, ...]:
    """One range a known topic-partition: from where it stood to where it stands now.

    Args:
        before: where bronze stood.
        appended: what it holds behind that.
        ends: up to where the batch was read. Transaction markers, aborted records and compacted tails leave no row.
    """
    ranges = {
        at: Range(*at, position.offset, position.offset, stream_time_ms=position.stream_time_ms)
        for at, position in before.positions.items()
    }
    for at, part in appended.items():
        start = before.positions[at].offset if at in before.positions else part.range.from_offset
        ranges[at] = replace(part.range, from_offset=start)
    for at, end in ends.items():
        known = ranges.get(at) or Range(*at, end, end)
        ranges[at] = replace(known, to_offset=max(known.to_offset, end))
    return tuple(ranges[at] for at in sorted(ranges))


def replay_ranges_of(
    before: BronzeState, seq: int, appended: Mapping[TopicPartition, AppendedRange]
) -> tuple[Range, ...]:
    """The same of a replay's batch: all empty but that of the attempts; stream times as they are now (decision 0020)."""
    ranges = {
        at: Range(*at, position.offset, position.offset, stream_time_ms=position.stream_time_ms)
        for at, position in before.positions.items()
    }
    for at, tail in appended.items():
        known = ranges.get(at) or Range(*at, 0, 0)
        ranges[at] = replace(known, stream_time_ms=max(known.stream_time_ms, tail.range.stream_time_ms))
    if appended:
        at = (next(topic for topic, _ in appended), REPLAYED)
        parts = [tail.range for tail in appended.values()]
        ranges[at] = replace(
            reduce(lambda one, other: one.merged_with(other), parts),
            partition=REPLAYED,
            from_offset=before.positions[at].offset if at in before.positions else seq,
            to_offset=seq + 1,
            stream_time_ms=max(part.stream_time_ms for part in parts),
        )
    return tuple(ranges[at] for at in sorted(ranges))


def closed(
    before: BronzeState, appended: Mapping[TopicPartition, AppendedRange], ends: Mapping[TopicPartition, int]
) -> Ingest:
    """What the ledger's row says that closes a batch; the last request stands in it, too."""
    ranges, seq = ranges_of(before, appended, ends), before.seq + 1
    pieces = {at: part.pieces for at, part in appended.items() if part.pieces}
    return Ingest(seq, seq, ranges, before.request, before.mean_bytes, pieces)


def closed_request(
    before: BronzeState, number: int, appended: Mapping[TopicPartition, AppendedRange], seq: int
) -> Ingest:
    """The same of a replay's batch: the row names its request, so that it is ingested once."""
    return Ingest(seq, before.seq + 1, replay_ranges_of(before, seq, appended), number, before.mean_bytes)


def may_close_later(batch: Ingest) -> bool:
    """Whether the row that closes a batch may come behind the plan over it: if need be, it is recreated from bronze.

    Of markers alone bronze has no row: nobody but the ledger knows that they were read (decision 0024).
    """
    return any(part.records for part in batch.ranges)


def recovered(before: BronzeState, appended: Mapping[TopicPartition, AppendedRange]) -> Ingest | None:
    """The batch that a crash left in bronze without a ledger row; None if there is none."""
    if not appended:
        return None
    seq = max(part.seq for part in appended.values())
    return Ingest(seq, before.seq + 1, ranges_of(before, appended, {}), before.request, before.mean_bytes)


def recovered_request(
    before: BronzeState, oldest: int, appended: Mapping[TopicPartition, AppendedRange]
) -> Ingest | None:
    """The same of attempts. Requests are taken in their order, a batch each: so it is the oldest that is not ingested."""
    if not oldest or not appended:
        return None
    return closed_request(before, oldest, appended, max(part.seq for part in appended.values()))


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


SLOTS: Final[Mapping[str, tuple[str, str]]] = {"state": ("a", "b"), "base": ("base_a", "base_b")}
"""Kind of row to the two places of which one is valid while the other one is written."""


def free_slot(kind: Literal["state", "base"], valid: StoredState | None) -> str:
    """Where is written next: not where lies what is valid."""
    one, other = SLOTS[kind]
    return other if valid is not None and valid.slot == one else one


def holds_still(before: History, after: History) -> bool:
    """Whether nothing was trimmed between a driver's `state` row and its look behind that."""
    return (before.trim, before.base) == (after.trim, after.base)


def trim_target(plans: Sequence[int], done: int, stored: int) -> int:
    """Up to which cycle bronze may be trimmed: those that are done, and lie before what the driver builds on; 0: none."""
    return max((cycle for cycle in plans if cycle <= min(done, stored)), default=0)


def may_delete(target: int, stored: int) -> bool:
    """Whether the driver builds on nothing that lies before; asked once more behind the `trim` row."""
    return stored >= target


def unfinished(history: History) -> int:
    """A trim that was begun and not finished; 0: there is none."""
    return cycle_of(history.trim) if cycle_of(history.trim) > cycle_of(history.trimmed) else 0


def cycle_of(one: Plan | StoredState | None) -> int:
    """The cycle as of which something is; 0: it is not there."""
    return one.cycle if one is not None else 0
