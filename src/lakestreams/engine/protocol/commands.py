"""What a machine of the protocol asks for: looks and writes, as plain values; and how it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from lakestreams.engine.ledger.plans import Ingest, Plan, StoredState

Role = Literal["epoch", "maintain"]

LEDGER: Final = "ledger"
REPLAYS: Final = "replays"


class Transaction(NamedTuple):
    """What Delta knows an append by: it skips one whose version is not above the application's last one."""

    application: str
    version: int

    def of(self, pipeline: str) -> Transaction:
        """As a table knows it that several pipelines write to."""
        return Transaction(f"{pipeline}/{self.application}", self.version)


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
        pending: goes on at once; `Wait` waits for it.
    """

    table: str
    row: Any
    transaction: Transaction
    turn: Turn
    fenced: bool = True
    pending: bool = False


@dataclass(frozen=True)
class Together:
    """Appends in parallel, in whatever order they commit; it goes on when all of them are there."""

    appends: tuple[Append, ...]


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
    """Replace a cache by what nodes keep; it fails if anything was committed to the table since it began.

    The answer: the same, as it is stored now, with its frames and rows.

    Attributes:
        stored: as of which cycle, and in which slot.
        since: what it is made of, with the cycles behind it up to that one; None: of all cycles.
        turn: who writes.
        pending: goes on at once; `Wait` waits for it.
    """

    stored: StoredState
    since: StoredState | None
    turn: Turn
    pending: bool = False

    @property
    def table(self) -> str:
        """Its slot, as the name of a table."""
        return f"slot {self.stored.slot}"


@dataclass(frozen=True)
class Evaluate:
    """Compute a cycle from what is stored and bronze behind that; whether its rules let it be published."""

    plan: Plan
    since: StoredState | None
    turn: Turn


@dataclass(frozen=True)
class Delete:
    """Delete from bronze what the cycles up to this one took. The answer: whether all of it."""

    cycle: int


@dataclass(frozen=True)
class Wait:
    """Until what was appended at once is there. The answer: whether it is ours."""


@dataclass(frozen=True)
class Begin:
    """A second machine runs, in another thread of the same process: of `machines` the one of this name.

    Both end with the process, and what one of them appends in parallel is what `Wait` waits for in the other.
    """

    machine: str
    of: tuple[Any, ...]


@dataclass(frozen=True)
class Hand:
    """Hand a closed batch to the machine that has begun this one."""

    batch: Ingest


@dataclass(frozen=True)
class Take:
    """Until the second machine has handed something over, or has ended. The answer: a `Taken`."""


class Taken(NamedTuple):
    """What the second machine has handed over, and whether it goes on."""

    batches: tuple[Ingest, ...]
    query: Literal["goes on", "has ended", "has failed"]


class Stop(Exception):
    """The machine refuses to go on.

    Attributes:
        code: of the error that its user sees.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


Command = Read | Append | Together | Raise | Seal | Overwrite | Evaluate | Delete | Wait | Begin | Hand | Take
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
