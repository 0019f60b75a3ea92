"""The driver of one pipeline: takes it over, ingests, settles, runs cycles, finishes.

Ingest runs as a streaming query of its own; cycles run here, over bronze, after each of its batches and once more when
it has ended. A crash anywhere leads to the same tables: whatever was planned is executed again, unchanged.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lakestreams.engine.ingest import batches as ingest
from lakestreams.engine.ingest import checkpoint, delta_source, pending_append, record_sizes, topic_identity, unseen
from lakestreams.engine.ingest import query as ingest_query
from lakestreams.engine.ingest.batch_size import Pace, Resized, in_doubt, mean_of
from lakestreams.engine.ledger import fingerprint, settle, stopped
from lakestreams.engine.ledger.last_cycle import LastCycle
from lakestreams.engine.ledger.ledger import Ledger, tables_option
from lakestreams.engine.ledger.plans import History, Ingest, Plan, Range, Standing
from lakestreams.engine.protocol import decisions
from lakestreams.engine.publish import cycle, event_log, kafka_sink
from lakestreams.engine.publish.events import Closing
from lakestreams.engine.publish.expectations import Expecting
from lakestreams.engine.replay import ingest as attempts
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.runtime import callbacks
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.progress import Event, Listener, Summary, Timer
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.engine.runtime.tuning import SHUFFLES, Tuning
from lakestreams.engine.state import past
from lakestreams.engine.state import policy as pace
from lakestreams.engine.state.bronze import cut_below
from lakestreams.engine.takeover import changed, running, table_identity
from lakestreams.engine.takeover import tables as starting
from lakestreams.engine.takeover.claiming import Claiming
from lakestreams.errors import Fenced, LakestreamsError, OffsetsExpired, TopologyInvalid
from lakestreams.evaluate import walk
from lakestreams.expectations.rules import RecordRules
from lakestreams.kafka import cluster
from lakestreams.kafka.cluster import ClusterView
from lakestreams.kafka.noted import TopicPartition
from lakestreams.topology import validate
from lakestreams.topology.expectations import MatchRate
from lakestreams.topology.graph import longest_wait_ms
from lakestreams.topology.steps import Repartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology

_UNKNOWN = 1 << 62  # as many rows as there may be
_RATES = 1_000  # finished cycles that match rates look back at, at most


class Driver:
    """Runs one pipeline.

    Args:
        spark: the session, classic or Connect.
        lake: where its tables live.
        settings: how the run is to go.
        listener: told of everything that happens.
        now_ms: the time, by which inputs are found silent; by default the machine's.
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
        self._spark = spark
        self._topology = topology
        self._lake = lake = lake.naming(topology)
        self._settings = settings
        self._tell: Listener = listener or (lambda _: None)
        self._ledger = Ledger(lake, topology.name)
        self._tuning = Tuning(spark)
        self._summary = Summary(notes=kafka_sink.note(topology))
        self._counts = cycle.RunCounts()
        self._last_cycle = LastCycle(topology.name)
        self._past: past.Past
        self._ingests: list[Ingest] = []  # complete batches that may hold unplanned rows
        self._accepted: dict[TopicPartition, int] = {}  # up to where expired records were accepted as lost
        self._loss_rows = 0
        self._configured = fingerprint.of(topology, settings.config_text, settings.meaning)
        self._now_ms = now_ms or _wall_clock_ms
        self._arrived: dict[TopicPartition, int] = {}  # when the last records of a partition were ingested
        self._silence = settle.Silence(
            frozenset(source.topic for source in topology.sources if source.kind == "stream"),
            max((node.partitions for node in topology.nodes if isinstance(node, Repartition)), default=0),
            longest_wait_ms(topology.nodes),
            settings.idle_timeout_ms,
        )
        self._target = kafka_sink.Target(settings.kafka)
        self._rules = RecordRules(topology.expectations)
        self._expecting = Expecting(spark, self._ledger, topology, self._rules)
        self._events = event_log.EventLog(spark, self._ledger, topology)
        self._written = stopped.Topics(spark, self._ledger, topology)
        self._new_to: list[Source] = []  # whose fields are still to be looked for
        self._fallen = False  # start or a round has failed: what is here need not be what is written

    # --- what callers use ------------------------------------------------------------------------------------------

    def run(self) -> Summary:
        """One run: everything that is on the broker now, processed and finished."""
        self.start()
        self.round()
        return self._summary

    def check(self) -> tuple[dict[str, DataFrame], ClusterView, list[str]]:
        """Everything that can be wrong before anything starts.

        Returns:
            Empty frames of the outputs, the cluster as it is, and warnings.

        Raises:
            TopologyInvalid: with every fault of the topology and of its partitions at once.
        """
        with self._tuning.utc():
            outputs, faults = walk.check(self._topology, self._spark)
        found, unfit = delta_source.examine(self._spark, self._lake, self._topology.sources)
        faults = [*faults, *unfit]
        try:
            view = self._view(found)
        except LakestreamsError as error:
            if faults:
                raise TopologyInvalid([*faults, error], self._topology.name) from error
            raise
        unequal, warnings = validate.co_partitioning(self._topology.nodes, view.partitions)
        if faults or unequal:
            raise TopologyInvalid([*faults, *unequal], self._topology.name)
        starting.require_distinct_tables(self._lake, self._topology)
        self._tell(Event("checked", {"partitions": view.partitions}))
        return outputs, view, warnings + topic_identity.warnings(view)

    def start(self) -> None:
        """Checks, takes the pipeline over, closes what a crash left behind, finishes an open plan."""
        with self._tuning.few(), self._falling():
            self._start()

    def _start(self) -> None:
        with self._timed("check"):
            outputs, view, warnings = self.check()
            self._summary.warnings = warnings + self._tuning.other_zone()
        with self._timed("prepare"):
            accept = self._settings.accept_change
            known = table_identity.known(self._spark, self._ledger, self._topology, accept=accept)
            history = known.history
            change = self._changed(history)  # refused before anything is written
            self._summary.warnings += known.accepted
            missing = starting.create_tables(self._spark, self._ledger, self._topology, outputs)
            self._summary.warnings += starting.layouts(self._spark, self._lake, self._topology)
            if not missing.ledger and not known.tables.has_ledger:  # another driver has made it meanwhile
                history = self._ledger.history(self._spark)
            starting.require_same_topics(self._topology, history, view)
            self._summary.warnings += running.taken_from(history)
            self._summary.warnings += running.clock_behind(history, _wall_clock_ms())
            own = view.only(source.topic for source in self._topology.sources)
            # what was noted before counts: bronze may have more of those topics than the ledger knows
            self._ledger = replace(self._ledger, noted=own.noted.then(history.noted))
            began = history.epoch > 0
            history = self._take_over(history, known)  # nothing of an older driver comes from here on: it stays true
            if began:
                change = self._changed(history)
            if change is not None:
                done, whole = history.done_cycle, self._configured.whole
                self._ledger.record_accepted(self._spark, done, whole, change.former, change.told)
                self._summary.warnings += [f"accepted change behind cycle {done}: {one}" for one in change.told]
            if change is not None or not history.done_cycle:
                self._new_to = list(self._topology.sources)
            known.tables.own(self._spark)
            self._expect(view, history)
            # another driver may have written to tables that were missing when this one looked, but not without an epoch
            self._ledger = replace(self._ledger, noted=self._ledger.noted.then(history.noted))
            self._resume(history, recover=began or not missing.bronze)
            view = self._newest(view)
            self._require_same_topics(view)  # bronze may have had more than the ledger knew
            self._accept_losses(view)
        plan = self._last_cycle.open_plan
        if plan is not None:
            self._summary.warnings += starting.repeated(self._topology, plan)
            plan = self._expecting.recounted(plan)
            self._last_cycle.revised(plan)
            self._execute(plan, repeated=True)

    def round(self, again_in_s: float | None = None) -> None:
        """Ingests up to the ends of now and processes what is settled, then the rest.

        Args:
            again_in_s: when the next round begins, for those who call `end` behind the last one. If that is soon, this
                round's last cycle is published and left open: the next plan closes it, or the next round without one. A
                crash in between repeats it, which leaves tables as they are; so where topics are written it is closed.
        """
        follows = pace.follows(again_in_s) and not self._topology.kafka_sinks
        if self._fallen:
            message = f"this driver of {self._topology.name} has failed: go on with a new one"
            raise RuntimeError(message)
        with self._tuning.few(), self._falling():
            try:
                self._round(follows=follows)
                if self._events.due:
                    self._write_events()
            except Exception:
                # nothing is wrong with a cycle that was left: no other configuration shall meet it open
                if self._last_cycle.state == "left":
                    with contextlib.suppress(Exception):
                        self._finish()
                raise

    def end(self) -> None:
        """Closes and writes of the event log what rounds have left; for those who have begun more than one."""
        if self._fallen:
            return  # the next driver goes on from what is written
        with self._tuning.few():
            self._finish()
            if self._events.waiting:
                self._write_events()

    @contextlib.contextmanager
    def _falling(self) -> Iterator[None]:
        """Remembers that something has failed."""
        try:
            yield
        except Fenced as error:
            self._fallen = True
            raise self._named(error) from error
        except BaseException:
            self._fallen = True
            raise

    def _named(self, error: Fenced) -> Fenced:
        """The error with the run that has taken the pipeline over, where the ledger can be asked."""
        with contextlib.suppress(Exception):
            by = running.taken_by(self._ledger.claimed(self._spark), self._ledger.epoch)
            return Fenced(f"{error.message}\n{by}") if by is not None and by not in error.message else error
        return error

    def _round(self, *, follows: bool) -> None:
        before = self._last_cycle.number
        with self._timed("look"):
            found, unfit = delta_source.examine(self._spark, self._lake, self._topology.sources)
            if unfit:  # since the run began
                raise TopologyInvalid(unfit, self._topology.name)
            view = self._view(found).only(source.topic for source in self._topology.sources)
            self._require_same_topics(view)
            self._ledger = replace(self._ledger, noted=self._ledger.noted.then(view.noted))
            self._require_equal_counts(view)
            self._accept_losses(view)
        positions = self._positions()
        ends = {at: end for at, end in view.ends.items() if not delta_source.is_delta(at[0])}
        known = {at: positions.get(at, view.starts.get(at, 0)) for at in ends}
        pending = {at: end for at, end in ends.items() if known[at] < end}
        lag = sum(end - known[at] for at, end in pending.items())
        self._tell(Event("started", {"lag": lag}))
        self._ingest_requests()
        self._ingest_tables(delta_source.pending(found, positions))
        with pending_append.rows(
            self._ledger.run_id, partial(ingest_query.failure, self._topology.name, topics=self._topics)
        ):
            if pending or (self._topics and not ends):
                batches = self._pace(known, pending)
                with self._tuning.rows(min(lag, batches.most) if ends else _UNKNOWN):
                    self._ingest(view, batches)
            self._pass_time(view, self._process({}, view))
        if follows and self._last_cycle.number > before:
            self._last_cycle.left_open(self._closing())
        else:
            self._finish()

    def _require_equal_counts(self, view: ClusterView) -> None:
        """Looks at partition counts again where a topic has grown since they were looked at.

        Raises:
            TopologyInvalid: where a join requires equal ones and they are not any more.
        """
        if dict(view.partitions) == dict(self._rules.partitions):
            return
        unequal, warnings = validate.co_partitioning(self._topology.nodes, view.partitions)
        if unequal:
            raise TopologyInvalid(unequal, self._topology.name)
        self._summary.warnings += [text for text in warnings if text not in self._summary.warnings]
        self._rules = self._expecting.rules = RecordRules(self._topology.expectations, view.partitions)

    # --- start -----------------------------------------------------------------------------------------------------

    @property
    def _topics(self) -> list[str]:
        """What is read from Kafka."""
        return [source.topic for source in self._topology.sources if source.delta is None]

    def _view(self, found: Sequence[delta_source.Found]) -> ClusterView:
        """Kafka's topics, those that are read and those that are written, and the Delta tables."""
        written = [sink.name for sink in self._topology.kafka_sinks]
        view = self._cluster.view(self._topics, written) if self._topics or written else ClusterView({})
        self._target = replace(self._target, partitions=view.partitions, most_bytes=view.most_bytes)
        return delta_source.beside(view, found)

    @cached_property
    def _cluster(self) -> cluster.Cluster:
        return cluster.connect(self._spark, self._settings.kafka, self._lake.checkpoints(self._topology.name))

    def _changed(self, history: History) -> changed.Change | None:
        """What has changed over existing results, if that is to be accepted.

        Raises:
            TopologyChanged: if it is not.
        """
        change = changed.since(self._spark, self._ledger, history, self._configured)
        accept = self._settings.accept_change
        changed.require_accepted(change, self._topology.name, history.done_cycle, accept=accept)
        return change

    def _take_over(self, history: History, known: table_identity.Known) -> History:
        options = {
            "max_bad_share": str(self._settings.max_bad_share),
            "accept_data_loss": str(self._settings.accept_data_loss).lower(),
            "accept_change": str(self._settings.accept_change).lower(),
            **tables_option(known.tables.as_known(self._spark, history)),
            **({"accepted": "\n".join(known.accepted)} if known.accepted else {}),
        }
        run = replace(self._ledger, run_id=str(uuid.uuid4()))
        configuration = None if self._configured.whole in history.meanings else self._configured
        taking = Claiming(self._spark, run, options, configuration, self._claimed)
        return taking.take_over(history, starting.sealed(run, self._topology))

    def _claimed(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._summary.epoch = ledger.epoch
        self._tell(Event("claimed", {"epoch": ledger.epoch, "fingerprint": self._configured.whole}))

    def _expect(self, view: ClusterView, history: History) -> None:
        """Prepares what judges: the partitions are those of now, the rates those of the cycles before."""
        own = view.only(source.topic for source in self._topology.sources)
        self._rules = RecordRules(self._topology.expectations, own.partitions)
        self._expecting = Expecting(self._spark, self._ledger, self._topology, self._rules, self._expecting.rates)
        self._events = event_log.EventLog(self._spark, self._ledger, self._topology, history.done_cycle)
        if any(isinstance(what, MatchRate) for _, what in self._topology.expectations.invariants):
            told = {one.cycle: one for one in self._ledger.closings(self._spark, 0, _RATES)}
            topics = [source.topic for source in self._topology.sources]
            for plan in self._ledger.plans(self._spark, min(told, default=1), topics):
                if plan.cycle in told:
                    self._expecting.closed(plan, told[plan.cycle].tally)

    def _accept_losses(self, view: ClusterView) -> None:
        """Records that expired before they were read: an error, or written down, once, where the operator says so."""
        lost = starting.lost(self._positions(), view)
        if lost and not self._accepted:
            self._accepted = self._ledger.losses(self._spark)
            lost = starting.lost(self._positions(), view)
        if not lost:
            return
        shown = "\n".join(
            f"{one.topic}-{one.partition}: offsets {one.from_offset} to {one.to_offset - 1}" for one in lost
        )
        if not self._settings.accept_data_loss:
            message = f"records expired before they were ingested:\n{shown}"
            raise OffsetsExpired(message)
        self._loss_rows += 1
        self._ledger.record_loss(self._spark, lost, nth=self._loss_rows)
        self._accepted |= {one.at: one.to_offset for one in lost}
        self._summary.warnings.append(f"accepted data loss:\n{shown}")

    def _require_same_topics(self, view: ClusterView) -> None:
        """Refuses topics and Delta tables that are others than those that bronze holds records of."""
        self._summary.warnings += [text for text in topic_identity.warnings(view) if text not in self._summary.warnings]
        called = topic_identity.called(self._topology)
        topic_identity.require_same(self._ledger.noted, view, self._positions(), called, self._unplanned)

    def _newest(self, view: ClusterView) -> ClusterView:
        """The view; taken once more where bronze has more than it: an older driver has read on until the claim."""
        if all(position <= view.ends.get(at, position) for at, position in self._positions().items()):
            return view
        return self._view(delta_source.examine(self._spark, self._lake, self._topology.sources)[0])

    def _require_unchanged(self, view: ClusterView) -> None:
        """Looks at the topics once more before anything is derived of what was read since the round's start."""
        topics = {part.topic for one in self._unplanned for part in one.ranges if part.records and not part.of_attempts}
        topics &= set(self._topics)
        if topics:
            topic_identity.require_unchanged(view, self._cluster.topic_ids(topics), {}, self._unplanned)

    @property
    def _unplanned(self) -> list[Ingest]:
        """Batches that no cycle has taken records of."""
        plan = self._last_cycle.plan
        return [one for one in self._ingests if plan is None or one.seq > plan.seq]

    def _resume(self, history: History, *, recover: bool) -> None:
        sources = self._topology.sources
        found = None
        if recover:
            found = ingest.recover(self._spark, self._ledger, sources, history.ingest, self._rules)
        if recover and found is None:
            found = self._attempts.recover(history.ingest)
        if found is not None:
            self._tell(Event("recovered", {"seq": found.seq}))
        self._last_cycle = LastCycle.of(self._topology.name, history)
        self._written = stopped.Topics(self._spark, self._ledger, self._topology, history.stopped)
        if history.plan is not None or history.ingest is not None or found is not None:
            newest = found or history.ingest
            self._ingests = self._ledger.ingests(self._spark, decisions.oldest_batch(history.plan, newest))
            self._tuning.holds(max(self._standing().mean_bytes.values(), default=0))
        if self._settings.idle_timeout_ms is not None:
            self._arrived = self._ledger.arrivals(self._spark)
        meaning, every = self._configured.meaning, self._settings.snapshot_every
        self._past = past.of(self._spark, self._ledger, self._topology, meaning, every)
        self._past.resume(history)
        plan = self._last_cycle.open_plan
        if plan is not None:
            taken = starting.taken_over(
                self._spark, self._ledger, self._topology, plan, history, self._configured,
                accept=self._settings.accept_change,
            )  # fmt: skip
            self._last_cycle.revised(taken)

    # --- ingest ----------------------------------------------------------------------------------------------------

    def _positions(self) -> dict[TopicPartition, int]:
        """Where bronze stands: the newest batch, or what the last plan took."""
        plan = self._last_cycle.plan
        positions = dict(plan.positions) if plan else {}
        for one in self._ingests:
            for part in one.ranges:
                positions[part.at] = max(positions.get(part.at, 0), part.to_offset)
        for at, lost in self._accepted.items():
            if at in positions:
                positions[at] = max(positions[at], lost)
        return positions

    def _ingest_tables(self, found: Sequence[delta_source.Found]) -> None:
        """Ingests what is new in Delta tables, in one batch before Kafka's: so they never hold a cycle back."""
        if not found:
            return
        reader = delta_source.TableReader(self._spark, self._ledger, self._settings.accept_data_loss, self._rules)
        with self._timed("ingest"), self._tuning.rows(reader.rows(found, self._standing())):
            one = reader.ingest(found, self._standing())
        self._ingested_one(one)
        self._summary.warnings.extend(reader.warnings)
        before, after = (
            delta_source.beside(ClusterView({}), tables)
            for tables in (found, delta_source.examine(self._spark, self._lake, [one.source for one in found])[0])
        )
        called = topic_identity.called(self._topology)
        topic_identity.require_unchanged(before, after.topic_ids, called, self._unplanned)

    def _ingest_requests(self) -> None:
        """Ingests what is to be replayed, a batch a request, before anything else of the round."""
        while True:
            standing = self._standing()
            request = replays.oldest(self._spark, self._ledger, standing.request)
            if request is None:
                return
            with self._timed("ingest"):
                one = self._attempts.ingest(request, standing)
            self._ingested_one(one)

    @property
    def _attempts(self) -> attempts.AttemptReader:
        return attempts.AttemptReader(self._spark, self._ledger, self._topology, self._rules)

    def _take_note(self) -> None:
        """Takes note of what the ingest query has closed."""
        seq = self._ingests[-1].seq if self._ingests else 0
        fresh = ingest.closed_here(self._ledger.run_id, seq)
        if fresh is None:  # none yet, or the function ran in another process: Spark Connect's worker
            fresh = self._ledger.ingests(self._spark, seq + 1)
        for one in fresh:
            self._ingested_one(one)

    def _ingested_one(self, one: Ingest) -> None:
        """Takes note of a batch that was closed."""
        self._ingests.append(one)
        self._tuning.holds(max(one.mean_bytes.values(), default=0))
        self._arrived |= {part.at: self._now_ms() for part in one.ranges if part.records}
        self._tell(Event("ingested", {"seq": one.seq, "records": sum(part.records for part in one.ranges)}))

    def _standing(self) -> Standing:
        """Where bronze stands."""
        return Standing.after(self._ingests)

    def _pace(self, positions: Mapping[TopicPartition, int], pending: Mapping[TopicPartition, int]) -> Pace:
        """How many offsets a batch is to have, by what records weigh; if these may be heavy some are looked at.

        Args:
            positions: from where on partitions are to be read.
            pending: where those end that have something new.
        """
        most, most_bytes = self._settings.max_offsets_per_trigger, self._settings.max_bytes_per_batch
        means = dict(self._standing().mean_bytes)
        lags: dict[str, int] = {}
        for at, end in pending.items():
            lags[at[0]] = lags.get(at[0], 0) + end - positions[at]
        with self._timed("look"):
            new = lags.keys() - means.keys()
            largest = self._cluster.most_bytes(new) if new else {}
            if in_doubt(most_bytes, lags, means, largest):
                options = {**ingest_query.READER, **self._settings.kafka}
                found = record_sizes.sample(self._spark, options, positions, pending)
                means |= {topic: max(means.get(topic, 0), mean) for topic, mean in found.items()}
        self._tuning.holds(max([means.get(topic) or largest.get(topic, 0) for topic in lags], default=0))
        return replace(Pace.of(most, most_bytes, mean_of(lags, means)), means=means)

    def _ingest(self, view: ClusterView, batches: Pace) -> None:
        """Runs ingest queries up to the ends of now, another one whenever records are much heavier or lighter than before."""
        while True:
            try:
                self._ingest_at(view, batches)
            except Resized as resized:
                batches = replace(batches, offsets=resized.offsets)
                self._take_note()  # of what is closed: the next query begins behind it
                self._tell(Event("resized", {"offsets": resized.offsets}))
            else:
                return

    def _ingest_at(self, view: ClusterView, batches: Pace) -> None:
        """Runs the ingest query up to the ends of now; cycles run meanwhile, over what is settled."""
        root = self._lake.checkpoints(self._topology.name)
        positions = self._positions()
        for at, start in view.starts.items():  # expired offsets, accepted: Spark would refuse to start there
            if at in positions and positions[at] < start:
                positions[at] = start
        topics = self._topics
        partitions = [at for at in view.ends if at[0] in topics]
        generation = checkpoint.choose_generation(root, topics, partitions, positions)
        try:
            self._ingest_from(generation, view, batches)
        except ingest_query.CheckpointRefused as refused:  # bronze is the truth: what comes again is dropped
            self._summary.warnings.append(
                f"Spark could not go on from the checkpoint {generation.path}; a new one begins where bronze ends"
            )
            self._tell(Event("checkpoint", {"refused": str(generation.path), "because": refused.failure.message}))
            self._ingest_from(checkpoint.new_generation(root, partitions, positions), view, batches)

    def _ingest_from(self, generation: checkpoint.Generation, view: ClusterView, batches: Pace) -> None:
        topics, standing, positions = self._topics, self._standing(), self._positions()
        # what was looked at counts where no append is weighed: else each round would look again
        standing = replace(standing, mean_bytes={**batches.means, **standing.mean_bytes})
        sources = tuple(source for source in self._topology.sources if source.delta is None)
        shuffles = self._spark.conf.get(SHUFFLES)
        folder = str(generation.path)
        writer = ingest.BatchWriter(self._ledger, sources, folder, standing, self._rules, shuffles, batches)
        seen: int | None = None
        with self._timed("ingest"):
            # a checkpoint may stand before what was accepted as lost in an earlier run, where Spark would refuse to start
            behind = any(at in positions and standing.offset(at) < lost for at, lost in self._accepted.items())
            accept = self._settings.accept_data_loss or behind
            settings = replace(self._settings, accept_data_loss=accept, max_offsets_per_trigger=batches.offsets)
            query = ingest_query.IngestQuery(self._spark, self._topology.name, settings, generation, topics, writer)
        try:
            while query.active:
                with self._timed("ingest"):  # a cycle's own time is none of it, although the query goes on meanwhile
                    query.wait()
                batch = query.last_batch
                if batch is not None and batch != seen and query.active:
                    seen = batch
                    # a partition of which nothing is retained has nothing to wait for
                    ends = {at: end for at, end in view.ends.items() if end > view.starts.get(at, 0)}
                    self._process(ends, view)
            query.require_success()
        except BaseException:  # of the ingest or of a cycle, which is no fault of the ingest
            query.stop()
            raise
        finally:
            callbacks.release_idle(self._spark)

    # --- cycles ----------------------------------------------------------------------------------------------------

    def _process(self, ends: Mapping[TopicPartition, int], view: ClusterView) -> settle.Frontier | None:
        """Plans and executes one cycle over what is settled.

        Args:
            ends: the ends below which a partition holds the others back; none when ingest has come to its end.
            view: the cluster at the round's start.

        Returns:
            What the settling `event_time` went by, of which time may not ask anew: a partition may be silent by then.
        """
        with self._timed("settle"):
            self._take_note()
            judged = {
                source.topic: frozenset(one.id for one in self._rules.of(source)) for source in self._topology.sources
            }
            last = self._last_cycle.plan
            backlog = settle.Backlog(last, tuple(self._ingests), judged)
            number = self._last_cycle.number + 1
            ids = {**(last.topic_ids if last else {}), **view.topic_ids}
            whole = frozenset(one.topic for one in self._topology.sources if one.kind == "global_table")
            frontier = self._frontier(view)
            plan = settle.next_plan(number, self._configured.whole, backlog, ends, ids, self._cut, whole, frontier)
            if plan is None:
                return frontier
            self._require_unchanged(view)
            self._record(plan, view)
        self._execute(plan)
        return frontier

    def _frontier(self, view: ClusterView) -> settle.Frontier | None:
        """Of the settling `event_time`: the partitions that hold the others back; when draining, none will have news."""
        if self._settings.settling != "event_time" or self._settings.drain:
            return None
        positions, timeout = self._positions(), self._settings.idle_timeout_ms
        now = self._now_ms()
        # a Delta table has been read up to now, and what it is still to have is committed later
        tables = {source.topic for source in self._topology.sources if source.delta and source.kind != "stream"}
        # a global table is read to its end before anything else
        tables |= {source.topic for source in self._topology.sources if source.kind == "global_table"}

        def holds(at: TopicPartition, end: int) -> bool:
            if end <= view.starts.get(at, 0) or at[0] in tables:
                return False  # it has no record to wait for
            caught_up = positions.get(at, 0) >= end
            return not (caught_up and timeout is not None and now - self._arrived.get(at, now) >= timeout)

        return settle.Frontier(frozenset(at for at, end in view.ends.items() if holds(at, end)), self._silence.streams)

    def _pass_time(self, view: ClusterView, frontier: settle.Frontier | None) -> None:
        """Moves clocks on where inputs have been silent, or the user says that no record will come.

        Args:
            view: the cluster at the round's start.
            frontier: what the last plan went by.
        """
        if isinstance(self._past, past.OfTables):
            return  # nothing waits
        last, number = self._last_cycle.plan, self._last_cycle.number + 1
        now, drain = self._now_ms(), self._settings.drain
        plan = settle.idle_plan(
            number, self._configured.whole, last, self._silence, self._arrived, now, frontier, drain=drain
        )
        if plan is not None:
            self._record(plan, view)
            self._execute(plan)

    def _cut(self, stretches: Sequence[Range], below: int | None, seq_from: int) -> Mapping[TopicPartition, Range]:
        sources = self._topology.sources
        with self._tuning.rows(sum(part.to_offset - part.from_offset for part in stretches)):
            return cut_below(self._spark, self._ledger, stretches, below, seq_from, self._rules, sources)

    def _record(self, plan: Plan, view: ClusterView) -> None:
        plan = replace(plan, ranges=tuple(replace(part, end_offset=view.ends.get(part.at)) for part in plan.ranges))
        closing = self._closing() if self._last_cycle.open_plan is not None else None
        self._ledger.record_plan(self._spark, plan, None if closing is None else closing.as_dict())
        if closing is not None:  # the new plan says that the one before it is done
            self._closed(closing)
        self._last_cycle.planned(plan, self._summary.seconds, self._now_ms())
        backlog = settle.Backlog(plan, tuple(self._ingests))
        self._ingests = list(backlog.open_ingests()) or self._ingests[-1:]
        self._refresh()
        self._tell(Event("planned", {"cycle": plan.cycle, "records": sum(part.records for part in plan.ranges)}))

    def _execute(self, plan: Plan, *, repeated: bool = False) -> None:
        self._counts.add(plan)
        with self._timed("join"), self._written.watched(plan, repeated=repeated):
            self._counts.require_share(self._settings.max_bad_share)
            try:
                with self._tuning.rows(self._past.held(plan)):
                    inputs = self._past.inputs(plan)
                with self._tuning.rows(inputs.rows + self._merged(plan)):
                    executed = cycle.execute(
                        self._spark, self._ledger, self._topology, plan, inputs, self._target, self._expecting,
                        repeated=repeated, before_topics=partial(self._written.begin, plan),
                    )  # fmt: skip
                self._past.executed(plan, executed.results)
            except BaseException:
                self._past.abandoned()
                raise
        self._last_cycle.executed(executed.tally)
        for text in running.in_the_future(self._topology, executed.tally, _wall_clock_ms()):
            self._summary.warnings.append(f"cycle {plan.cycle}: {text}")
        self._summary.warnings += [
            one for one in running.in_seconds(self._topology, plan) if one not in self._summary.warnings
        ]
        for source in [one for one in self._new_to if plan.records(one.topic) >= unseen.LEAST]:
            self._new_to.remove(source)
            self._summary.warnings += unseen.fields(self._spark, self._ledger, source, plan)
        records = sum(part.records for part in plan.ranges)
        bad = sum(part.bad for part in plan.ranges)
        self._summary.records += records
        self._summary.bad += bad
        self._tell(Event("published", {"cycle": plan.cycle, "records": records, "bad": bad}))

    def _merged(self, plan: Plan) -> int:
        """How many rows the tables that are merged into may have."""
        merged = [sink for sink in self._topology.sinks if sink.mode == "merge" and cycle.causes(plan, sink)]
        return sum(plan.positions.values()) if merged else 0

    def _finish(self) -> None:
        """Closes the last cycle, if it is open and has been executed."""
        if not self._last_cycle.may_close:
            return
        closing = self._closing()
        with self._timed("finish"):
            self._ledger.record_done(self._spark, closing.cycle, closing.as_dict())
            self._closed(closing)
            self._refresh()

    def _write_events(self) -> None:
        with self._timed("events"):
            self._events.write()

    def _closing(self) -> Closing:
        """What is told of the open cycle, which is about to be closed."""
        return self._last_cycle.closing(self._ledger.run_id, self._summary.seconds, self._now_ms())

    def _closed(self, closing: Closing) -> None:
        """Goes on from a cycle of which the ledger says that it is done."""
        plan = self._last_cycle.closed()
        self._expecting.closed(plan, closing.tally)
        self._events.closed(plan, closing)
        self._summary.cycles += 1
        self._past.finished(plan)
        self._tell(Event("finished", {"cycle": plan.cycle}))

    def _refresh(self) -> None:
        """Stores of the past what is due."""
        with self._timed("snapshot"):
            try:
                with self._tuning.rows(self._past.rows):
                    stored = self._past.refresh()
            except BaseException:
                self._past.abandoned()
                raise
            for name, rows in stored:
                self._tell(Event("snapshot", {"source": name, "rows": rows}))

    def _timed(self, stage: str) -> Timer:
        return Timer(self._summary.seconds, stage)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
