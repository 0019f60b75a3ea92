"""The pytest plugin as a user's tests meet it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

# Installed, pytest finds it by its entry point.
INSTALLED = any(one.name == "lakestreams" for one in entry_points(group="pytest11"))
ARGUMENTS = ["-p", "no:cacheprovider", *([] if INSTALLED else ["-p", "lakestreams.testing.plugin"])]

TESTS = """
import pytest
from lakestreams import StreamsBuilder, Text
from lakestreams.testing import assert_results

@pytest.fixture
def driver(topology_test_driver):
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    views.filter(lambda view: view.page != "/health", name="people").to_delta("out")
    driver = topology_test_driver(builder.build(), partitions={"Views": 2})
    driver.pipe("Views", "alice", "/home", 1)
    driver.pipe("Views", "alice", "/health", 2, partition=1)
    return driver

def test_passes(driver):
    assert_results(driver.read("out"), [("alice", {"page": "/home"}, 1)])

def test_fails(driver):
    assert_results(driver.read("out"), [("alice", {"page": "/cart"}, 1)])

def test_compares(driver):
    results = driver.read("out")
    assert results == [*results, *results]
"""


@pytest.mark.usefixtures("spark")
def test_a_users_tests_have_a_driver_and_readable_failures(pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess(*ARGUMENTS)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            '*AssertionError: expected 1 | got 1: first in row 1: value.page expected "/cart", got "/home"',
            '*> "alice"  {"page": "/cart"}  1 * | "alice"  {"page": "/home"}  1',
            "*assert results differ*",
            "*left 1 | right 2: row 2 is only in right",
        ]
    )
    result.stdout.no_fnmatch_line("*difference.py:*")  # the place of a failure is the test, not the helper


def test_a_project_gives_its_own_session(pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def lakestreams_spark():
            return "mine"
        """
    )
    pytester.makepyfile("def test_it(lakestreams_spark): assert lakestreams_spark == 'mine'")
    pytester.runpytest_inprocess(*ARGUMENTS).assert_outcomes(passed=1)


def test_lists_of_other_things_are_left_to_pytest(pytester):
    pytester.makepyfile("def test_it(): assert [1, 2] == [1, 3]")
    result = pytester.runpytest_inprocess(*ARGUMENTS)
    result.stdout.fnmatch_lines(["*At index 1 diff: 2 != 3*"])


def test_the_fixtures_say_what_they_are(pytester):
    result = pytester.runpytest_inprocess(*ARGUMENTS, "--fixtures")
    result.stdout.fnmatch_lines(["lakestreams_spark*session scope*", "topology_test_driver*"])


def test_it_imports_neither_the_driver_nor_the_engine():
    code = (
        "import sys, lakestreams\nbefore = set(sys.modules)\nimport lakestreams.testing.plugin\n"
        "print([name for name in set(sys.modules) - before if name.startswith(('lakestreams.', 'pyspark', 'pyarrow'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(eval(done.stdout)) == ["lakestreams.testing", "lakestreams.testing.plugin"]
