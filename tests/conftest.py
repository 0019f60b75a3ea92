"""Fixtures shared by all tests: one Spark session and one broker a run.

A process can hold a classic Spark session or a Connect one, never both. `spark` is therefore classic, and the Connect
session in a run with LAKESTREAMS_TEST_MODE=connect; `make test` runs the tests marked `connect` that way, most of them once more.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

CONNECT_MODE = os.environ.get("LAKESTREAMS_TEST_MODE") == "connect"
FAST_LANE = os.environ.get("LAKESTREAMS_TEST_MODE") == "fast"


@pytest.fixture(scope="session")
def connect_mode() -> bool:
    """Whether `spark` is behind Spark Connect in this run."""
    return CONNECT_MODE


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of this run: two cores, classic or Connect.

    `quick` in `make check` and behind Connect. Elsewhere it runs for many minutes: from the third cycle on the optimising compiler
    saves a third of the CPU that a cycle takes, beside another worker, too.

    The unions of hundreds of histories that the properties run in one plan leave the usual heap all but full, and the
    JVM then collects garbage more than it works: hence twice as much.
    """
    from lakestreams.local.session import spark_session

    session = spark_session("lakestreams-tests", memory="4g", connect=CONNECT_MODE, quick=FAST_LANE or CONNECT_MODE)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def small_input(spark: SparkSession) -> Iterator[None]:
    """The session as a driver sets it for few rows, for a whole file: what the test itself reads is as little.

    With the session's own settings half of such a test was code that Spark generates for a handful of rows. Files without it
    show the engine beside these (`test_enrichment`, `test_fuzz`, `test_tuning`, the commands).
    """
    from lakestreams.testing.small import small

    with small(spark):
        yield


SPARK_FILES = pytest.StashKey[set[Path]]()


@pytest.fixture(autouse=True, scope="module")
def _nothing_stays_held(request: pytest.FixtureRequest) -> Iterator[None]:
    """Frames that a module has kept in memory go with it: every later plan would be compared with each of them."""
    yield
    if request.path not in request.session.stash[SPARK_FILES]:
        return
    gc.collect()  # what Python holds of Spark's objects
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None and not CONNECT_MODE:
        session.catalog.clearCache()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker of this run; tests make topics with names of their own. Not for stopping or killing."""
    from lakestreams.local.broker import Broker

    with Broker() as running:
        yield running


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collecting has made stays for the whole run, and is looked at no more: each collection of garbage took a second."""
    of_spark = {"spark", "lakestreams_spark", "topology_test_driver"}
    items = (item for item in session.items if isinstance(item, pytest.Function))
    session.stash[SPARK_FILES] = {item.path for item in items if of_spark.intersection(item.fixturenames)}
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What was left out is looked at again: libraries tell of objects that outlive the process."""
    gc.unfreeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the flags that write files of the tests anew, and those of `make soak-sample`."""
    parser.addoption("--soak-sample", type=int, metavar="N", help="of the long tests alone, and of them so many")
    parser.addoption("--soak-seed", default="28", metavar="TEXT", help="which ones")
    parser.addoption("--store-durations", action="store_true", help="write tests/durations.json anew")
    parser.addoption("--store-golden", action="store_true", help="write tests/topology/golden.json anew")


def pytest_configure(config: pytest.Config) -> None:
    """No example fails for the time that it takes. Takes note of durations where that is asked for, in xdist's controller."""
    import hypothesis
    from tests.durations import Durations

    hypothesis.settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("any machine")
    if config.getoption("--store-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first. Where a sample is asked for, all but it is left out."""
    from tests.durations import longest_first
    from tests.sampling import of_soak

    longest_first(items, config.rootpath)
    if most := config.getoption("--soak-sample"):
        kept = of_soak(items, most, config.getoption("--soak-seed"))
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


@pytest.hookimpl(wrapper=True, tryfirst=True)  # last of all, below the reasons of skipped tests
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Says at the end what stood for the Databricks CLI, if tests of the bundle ran: it is not on every machine."""
    from tests.deploy.cli import how_it_was_shown

    yield
    passed, failed, errors = map(terminalreporter.getreports, ("passed", "failed", "error"))
    told = how_it_was_shown(passed, [*failed, *errors])
    if told:
        terminalreporter.write_line(told)
