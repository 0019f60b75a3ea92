"""The driver of one pipeline: takes it over, goes on from what is there, and runs rounds.

Ingest runs as a streaming query of its own; cycles run here, over bronze, after each of its batches and once more when
it has ended. A crash anywhere leads to the same tables: whatever was planned is executed again, unchanged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lakestreams.engine.ingest.endpoints import Endpoints
from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.publish import kafka_sink
from lakestreams.engine.resume import resume
from lakestreams.engine.run import Setup
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.progress import Listener, Reporter, Summary, wall_clock_ms
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.engine.runtime.tuning import Tuning
from lakestreams.engine.state.operator_state import Outgrown
from lakestreams.engine.takeover import running
from lakestreams.engine.takeover.check import Checked, check
from lakestreams.engine.takeover.takeover import takeover
from lakestreams.errors import Fenced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.round import Round
    from lakestreams.topology.topology import Topology


class Driver:
    """Runs one pipeline.

    Args:
        spark: the session, classic or Connect.
        lake: where its tables live.
        settings: how the run is to go.
        listener: hears of everything that happens.
        now_ms: the time, by which inputs are found silent; by default the machine's.

    Attributes:
        setup: what it is asked to do.
    """

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        lake: Lake,
        settings: RunSettings,
        listener: Listener | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        lake = lake.naming(topology)
        self.setup = Setup(
            spark,
            topology,
            lake,
            settings,
            fingerprint.of(topology, settings.config_text, settings.semantics),
            Ledger(lake, topology.name),
            Endpoints(spark, lake, topology, settings.kafka, settings.registry),
            Tuning(spark),
            Reporter(Summary(notes=kafka_sink.note(topology)), listener or (lambda _: None)),
            now_ms or wall_clock_ms,
        )
        self._round: Round | None = None
        self._failed = False  # start or a round has failed: what is here need not be what is written

    @property
    def summary(self) -> Summary:
        """What the run did so far."""
        return self.setup.reporter.summary

    def run(self, *, ends: bool = True) -> Summary:
        """One run: everything that is on the broker now, processed and finished.

        Args:
            ends: whether no round follows.
        """
        self.start()
        self.round()
        if ends:
            self.end()
        return self.summary

    def check(self) -> Checked:
        """Finds everything that can be wrong before anything starts.

        Raises:
            TopologyInvalid: with every fault of the topology and of its partitions at once.
        """
        return check(self.setup)

    def start(self) -> None:
        """Checks, takes the pipeline over, closes what a crash left behind, finishes an open plan."""
        self._start()

    def _start(self, *, again: bool = False) -> None:
        """Starts, or starts `again` behind its own epoch.

        Raises:
            Fenced: if another driver has the pipeline by then.
        """
        setup = self.setup
        with setup.tuning.small_input(), self._failing():
            with setup.reporter.timed("check"):
                checked = self.check()
                setup.reporter.warn_once(*checked.warnings, *setup.tuning.other_zone())
            with setup.reporter.timed("prepare"):
                run = takeover(setup, checked, self.summary.epoch if again else None)
                self._round = resume(run, checked.view)
            self._round.cycles.repeat()

    def round(self, again_in_s: float | None = None) -> None:
        """Ingests up to the ends of now and processes what is settled, then the rest.

        Args:
            again_in_s: when the next round begins; `end` is called behind the last one. If that is soon, this
                round's last cycle is published and left open: the next plan closes it, or the next round without one. A
                crash in between repeats it, which leaves tables as they are; so where topics are written it is closed.
        """
        if self._failed or self._round is None:
            message = f"this driver of {self.setup.topology.name} has failed or ended: start a new one"
            raise RuntimeError(message)
        try:
            with self.setup.tuning.small_input(), self._failing():
                self._round(again_in_s)
        except Outgrown:
            self.setup.reporter.warn("a topic has grown: what windows keep is made once more from bronze")
            self._failed = False
            self._start(again=True)
            self.round(again_in_s)

    def end(self) -> None:
        """Closes and writes of the event log what rounds have left, and says that the run has ended: it writes no more."""
        if self._failed or self._round is None:
            return  # the next driver goes on from what is written
        with self.setup.tuning.small_input(), self._failing():
            self._round.end()
            self._release()
            self._say_ended(self._round.run.ledger)
            self._round = None

    def _say_ended(self, ledger: Ledger) -> None:
        """The last word of a run. Everything is done before it; where it cannot be said, the next run seals the tables."""
        try:
            ledger.record_said(self.setup.spark, "ended")
        except Fenced:
            return  # a newer driver is there, and has sealed them
        except Exception as error:  # noqa: BLE001 - it must not make a run fail that has done all
            self.setup.reporter.warn(f"the ledger does not know that the run has ended: {error}")

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Remembers that something has failed."""
        try:
            yield
        except BaseException as error:
            self._failed = True
            self._release()
            if isinstance(error, Fenced):
                raise self._named(error) from error
            raise

    def _release(self) -> None:
        """Keeps nothing in memory any more."""
        if self._round is not None:
            self._round.cycles.retained.released()

    def _named(self, error: Fenced) -> Fenced:
        """The error with the run that has taken the pipeline over, where the ledger can be asked."""
        with contextlib.suppress(Exception):
            claim = self.setup.ledger.claimed(self.setup.spark)
            by = running.taken_by(claim, self.summary.epoch)
            return Fenced(f"{error.message}\n{by}") if by is not None and by not in error.message else error
        return error


__all__ = ["Driver"]
