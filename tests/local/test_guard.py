"""No process survives whoever needed it: after Ctrl-C, after `kill -9` of the parent, after `kill -9` of the guard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from lakestreams.local import guard

GUARD = guard.__file__
SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
STUBBORN = [
    *(sys.executable, "-S", "-c"),
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


def gone(pids, within_s=10.0) -> bool:
    """Whether all the processes end in time. A zombie is gone: it runs nothing, its parent has yet to read its code."""
    deadline = time.monotonic() + within_s
    while any(_runs(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def guarded(*options, command=SLEEPER, **popen):
    """A guard over the command, and the command's process id."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", GUARD, *options, "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **popen,
    )
    return process, int(process.stdout.readline())


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_child(number):
    process, child = guarded()
    process.send_signal(number)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert gone([child])


@pytest.mark.crash
def test_end_of_stdin_ends_the_child():
    process, child = guarded()
    process.stdin.close()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert gone([child])


@pytest.mark.crash
def test_a_child_that_ignores_term_is_killed(tmp_path):
    log = tmp_path / "log"
    process, child = guarded("--grace", "0.3", "--log", str(log), command=STUBBORN)
    while "deaf" not in log.read_text():
        time.sleep(0.02)
    process.stdin.close()
    assert process.wait(10) == 128 + signal.SIGKILL
    assert gone([child])


@pytest.mark.crash
def test_grandchildren_of_the_group_go_too(tmp_path):
    file = tmp_path / "pid"
    script = f"import subprocess, sys, time; p = subprocess.Popen({SLEEPER!r}); open({str(file)!r}, 'w').write(str(p.pid)); time.sleep(600)"
    process, child = guarded(command=[sys.executable, "-S", "-c", script])
    while not (file.exists() and file.read_text()):
        time.sleep(0.02)
    process.stdin.close()
    process.wait(10)
    assert gone([child, int(file.read_text())])


@pytest.mark.crash
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can bind a child's life to its parent's")
def test_killing_the_guard_kills_the_child():
    process, child = guarded()
    process.kill()
    assert gone([child])


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_is_the_childs(code):
    process, _ = guarded(command=[sys.executable, "-S", "-c", f"raise SystemExit({code})"])
    assert process.wait(10) == code


@pytest.mark.parametrize(("order", "stays"), [(b"stop\n", True), (b"die\n", True), (b"", False)])
def test_folder_is_removed_only_when_the_parent_is_gone(tmp_path, order, stays):
    folder = tmp_path / "data"
    folder.mkdir()
    process, _ = guarded("--remove", str(folder))
    process.stdin.write(order)
    process.stdin.close()
    process.wait(10)
    assert folder.exists() is stays


@pytest.mark.crash
def test_inherited_pipe_does_not_keep_the_child_alive(tmp_path):
    """A fork of the parent holds the writing end of the guard's stdin; the parent's death must show all the same."""
    script = f"""
import os, subprocess, sys, time
guard = subprocess.Popen({[sys.executable, "-I", "-S", GUARD, "--", *SLEEPER]!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child = guard.stdout.readline().decode().strip()
fork = os.fork()
if fork == 0:
    time.sleep(600)
print(guard.pid, child, fork, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE)
    guard_pid, child, fork = map(int, parent.stdout.readline().split())
    try:
        parent.kill()
        parent.wait(10)
        assert gone([guard_pid, child])
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.crash
def test_a_parent_gone_before_the_guard_is_ready_shows_too():
    """The guard's python takes its time to start the child: its parent may be killed meanwhile."""
    script = f"""
import os, subprocess, sys, time
code = "import runpy, subprocess, sys, time; start = subprocess.Popen.__init__\\n" \
    "def late(*a, **k): start(*a, **k); time.sleep(1.5)\\n" \
    "subprocess.Popen.__init__ = late; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
guard = subprocess.Popen([{sys.executable!r}, "-I", "-S", "-c", code, {GUARD!r}, "--", *{SLEEPER!r}], stdin=subprocess.PIPE)
fork = os.fork()
if fork == 0:
    time.sleep(600)
print(guard.pid, fork, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE)
    guard_pid, fork = map(int, parent.stdout.readline().split())
    try:
        deadline = time.monotonic() + 30
        while not (children := psutil.Process(guard_pid).children()):  # it is there before the guard knows
            assert time.monotonic() < deadline
            time.sleep(0.02)
        parent.kill()
        parent.wait(10)
        assert gone([guard_pid, children[0].pid])
    finally:
        os.kill(fork, signal.SIGKILL)


BROKER_PARENT = """
import sys, time
from lakestreams.local.broker import Broker
with Broker() as broker:
    print(broker.pid, broker.guard_pid, broker.data_dir, flush=True)
    time.sleep(600)
"""


@pytest.mark.broker
@pytest.mark.crash
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.soak),  # as of the demo that is interrupted (test_commands)
        pytest.param(signal.SIGTERM, marks=pytest.mark.soak),  # ends Python as SIGKILL does
        signal.SIGKILL,
    ],
)
def test_nothing_is_left_of_a_broker_when_its_parent_goes(number):
    parent = subprocess.Popen(
        [sys.executable, "-c", BROKER_PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment()
    )
    jvm, guard_pid, folder = parent.stdout.readline().decode().split()
    assert Path(folder).is_relative_to(tempfile.gettempdir())
    parent.send_signal(number)
    parent.wait(20)
    assert gone([int(jvm), int(guard_pid)])
    assert not Path(folder).exists()


def _environment() -> dict[str, str]:
    """The package is found from the tree, as the tests find it."""
    return {**os.environ, "PYTHONPATH": str(Path(GUARD).parents[2])}
