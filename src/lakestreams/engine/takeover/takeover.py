"""How a driver takes a pipeline over: it compares tables and configuration, creates what is missing, claims, and only then reads."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from lakestreams.engine.ledger.rows import configuration_option, interval_option, tables_option
from lakestreams.engine.protocol import decisions
from lakestreams.engine.run import Run, Setup
from lakestreams.engine.runtime.progress import wall_clock_ms
from lakestreams.engine.takeover import changed, running, table_identity, tables
from lakestreams.engine.takeover.claiming import Claiming
from lakestreams.errors import Fenced

if TYPE_CHECKING:
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.ledger.plans import History
    from lakestreams.engine.takeover.check import Checked
    from lakestreams.kafka.noted import Noted


def takeover(setup: Setup, checked: Checked, own_epoch: int | None = None) -> Run:
    """Takes a pipeline over: from here on no older driver adds to what is read.

    Args:
        own_epoch: of this driver, if it goes on behind itself: it takes the pipeline from nobody else.

    Raises:
        LakestreamsError: before anything is written, if tables, topics or configuration are others than the ledger says.
        Fenced: if another driver claimed the same epoch at the same time, or one behind the driver's own.
    """
    spark, topology, reporter = setup.spark, setup.topology, setup.reporter
    known = table_identity.known(spark, setup.ledger, topology, accept=setup.settings.accept_change)
    history = known.history
    if own_epoch is not None and history.epoch != own_epoch:
        raise Fenced(f"a newer driver runs pipeline {topology.name}; nothing was written")
    change = _changed(setup, history)  # refused before anything is written
    reporter.warn(*known.accepted)
    missing = tables.create_tables(spark, setup.ledger, topology, checked.outputs)
    reporter.warn_once(*tables.layouts(spark, setup.lake, topology))
    if not missing.ledger and not known.tables.has_ledger:  # another driver has made it meanwhile
        history = setup.ledger.history(spark)
    tables.require_same_topics(topology, history, checked.view)
    if own_epoch is None:
        reporter.warn(*running.taken_from(history))
    reporter.warn(*running.clock_behind(history, wall_clock_ms()))
    # what was noted before counts: bronze may have more of those topics than the ledger knows
    noted = setup.endpoints.own(checked.view).noted.then(history.noted)
    began = history.epoch > 0
    ledger, history = _claim(setup, known, history, noted)
    if began:
        change = _changed(setup, history)
    if change is not None:
        ledger.record_accepted(spark, history.done_cycle, setup.configured.whole, change.former, change.differences)
        reporter.warn(*(f"accepted change after cycle {history.done_cycle}: {one}" for one in change.differences))
    known.tables.own(spark)
    # another driver may have written to tables that were missing when this one looked, but not without an epoch
    ledger = replace(ledger, noted=noted.then(history.noted))
    return Run(
        **vars(replace(setup, ledger=ledger)),
        history=history,
        may_recover=began or not missing.bronze,
        is_changed=change is not None or not history.done_cycle,
    )


def _changed(setup: Setup, history: History) -> changed.Change | None:
    """What has changed over existing results, if that is to be accepted.

    Raises:
        TopologyChanged: if it is not.
    """
    change = changed.since(setup.spark, setup.ledger, history, setup.configured)
    accept = setup.settings.accept_change
    changed.require_accepted(change, setup.topology.name, history.done_cycle, accept=accept)
    return change


def _claim(setup: Setup, known: table_identity.Known, history: History, noted: Noted) -> tuple[Ledger, History]:
    """Claims the next epoch and seals the tables, unless nobody can write to them: the epoch's ledger, and what it says then."""
    settings, configured, reporter = setup.settings, setup.configured, setup.reporter
    options = {
        "max_bad_share": str(settings.max_bad_share),
        "accept_data_loss": str(settings.accept_data_loss).lower(),
        "accept_change": str(settings.accept_change).lower(),
        **configuration_option(configured.whole),
        **interval_option(settings.interval_ms),
        **tables_option(known.tables.as_known(setup.spark, history)),
        **({"accepted": "\n".join(known.accepted)} if known.accepted else {}),
    }

    def claimed(ledger: Ledger) -> None:
        reporter.summary.epoch = ledger.epoch
        reporter.tell("claimed", epoch=ledger.epoch, fingerprint=configured.whole)

    run = replace(setup.ledger, run_id=str(uuid.uuid4()), noted=noted)
    unknown = None if configured.whole in history.semantics_of else configured
    claiming = Claiming(setup.spark, run, options, unknown, claimed)
    last = history.claim  # who has written nothing behind its claim may not have sealed
    same = last is not None and last.configuration == configured.whole and last.last_ms > last.began_ms
    # of tables that were accepted as they are, the ledger does not know who has written to them last
    quiet = not known.accepted and decisions.is_quiet(history, configured.whole)
    history = claiming.take_over(history, () if quiet else tables.sealed(run, setup.topology, snapshots=not same))
    return claiming.ledger, history


__all__ = ["takeover"]
