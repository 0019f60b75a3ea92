"""Carries out with Spark what the protocol says of claims and takeovers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakestreams.engine.ledger import fence
from lakestreams.engine.protocol import claims, commands
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.errors import Fenced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ledger.fingerprint import Configuration
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import History
    from lakestreams.engine.runtime.table import Table


@dataclass
class Claiming:
    """The hands of `claims.claim` and `claims.take_over`, and of the claim of `maintenance.trim`.

    Attributes:
        ledger: of a run, under no epoch yet; that of the claimed epoch behind the claim.
        options: what the claim says besides.
        configuration: one that the ledger has not seen; None: it knows it.
        claimed: called when the claim is ours and fences know of it.
    """

    spark: SparkSession
    ledger: Ledger
    options: Mapping[str, str] = field(default_factory=dict)
    configuration: Configuration | None = None
    claimed: Callable[[Ledger], None] = lambda _: None

    def claim(self, turn: commands.Turn) -> Ledger:
        """Claims an epoch.

        Raises:
            Fenced: if another run claimed it at the same time.
        """
        self._carried_out(claims.claim(turn))
        return self.ledger

    def take_over(self, history: History, tables: tuple[Table, ...]) -> History:
        """Takes the pipeline over: what the ledger says, to which no older driver adds.

        Args:
            history: what it said before.
            tables: what is sealed; those that are not there are passed over.

        Raises:
            Fenced: if another driver claimed the same epoch at the same time.
        """
        _, history = self._carried_out(claims.take_over(history, tables))
        return history

    def _carried_out(self, steps: commands.Steps[Any]) -> Any:
        try:
            return commands.carry_out(steps, self.hands)
        except commands.Stop as stop:
            raise Fenced(self.beaten()) from stop

    def hands(self, command: commands.Command) -> Any:
        """Does what a command says, and gives the answer."""
        match command:
            case commands.Append(turn=turn):
                self.ledger = replace(self.ledger, role=turn.role, epoch=turn.epoch)
                return self._appended()
            case commands.Read("claim"):
                return self.ledger.epoch if self.ledger.is_newest(self.spark) else None
            case commands.Raise(turn):
                ledger = self.ledger
                fence.raise_to(self.spark, ledger.lake, ledger.pipeline, turn.role, turn.epoch, ledger.run_id)
                self.claimed(ledger)
            case commands.Seal(tables, turn):
                existing = [one for one in tables if one == self.ledger.table or one.exists(self.spark)]
                owner = self.ledger.pipeline if turn.role == "epoch" else f"{self.ledger.pipeline}.{turn.role}"
                in_parallel(self.spark, [partial(one.seal, self.spark, owner, turn.epoch) for one in existing])
                if turn.role == "epoch":
                    self.ledger.failpoint("sealed.after")
            case _:
                return self.ledger.history(self.spark)
        return None

    def beaten(self) -> str:
        """What to tell of a claim that is not ours."""
        name = self.ledger.pipeline
        if self.ledger.role == "maintain":
            return f"another maintenance of pipeline {name} began at the same moment"
        return f"another driver took pipeline {name} over at the same moment (epoch {self.ledger.epoch})"

    def _appended(self) -> bool:
        """Appends the claim: whether this run's is surely there."""
        drives = self.ledger.role == "epoch"
        if drives:
            self.ledger.failpoint("epoch.before")
        written = self.ledger.append_claim(self.spark, self.options, self.configuration)
        if drives:
            self.ledger.failpoint("epoch.after")
        return written


__all__ = ["Claiming"]
