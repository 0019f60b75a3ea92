"""The user's broker: started once, found again, ended, and never another process for it."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from lakestreams.local.user_broker import down, info, up

pytestmark = pytest.mark.broker


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache with a state file of its own, but with the jars of the real one."""
    from lakestreams.local import jars
    from lakestreams.local.pins import BROKER_PINS

    jars.broker_jars()
    real = jars.jar_dir(BROKER_PINS)
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / real.name).symlink_to(real)
    yield tmp_path / "cache"
    down()


def test_up_info_down(own_cache):
    assert info() is None
    assert down() is False
    started = up()
    assert up() == started == info()
    assert psutil.pid_exists(started.broker_pid)
    assert down() is True
    assert info() is None
    assert not psutil.pid_exists(started.broker_pid)
    assert not Path(started.data_dir).exists()


@pytest.mark.soak  # kept data stay below, and a broker that begins again on them is in test_broker
def test_up_keeps_data_on_request(own_cache):
    first = up(keep=True)
    down()
    again = up(keep=True)
    assert again.bootstrap_servers == first.bootstrap_servers
    assert (Path(again.data_dir) / "data" / "meta.properties").is_file()


def test_data_that_were_kept_are_there_for_the_next_up_which_need_not_keep_them(own_cache):
    kept = Path(up(keep=True).data_dir)
    (kept / "data" / "mine").write_text("")
    down()
    up()
    assert (kept / "data" / "mine").is_file()
    down()
    assert not kept.exists()


def test_stale_state_is_not_believed(own_cache):
    started = up(keep=True)
    down()
    assert (Path(started.data_dir) / "data" / "meta.properties").is_file(), "kept, as it was asked for"
    live = psutil.Process().pid  # a process that lives, and is no broker of ours
    state = {
        "bootstrap_servers": started.bootstrap_servers,
        "guard_pid": live,
        "broker_pid": live,
        "data_dir": started.data_dir,
        "kept": False,
        "log": started.log,
    }
    (own_cache / "broker.json").write_text(json.dumps(state))
    assert info() is None
    assert down() is False  # and, above all, this test was not killed
    (own_cache / "broker.json").write_text("{")
    assert info() is None
