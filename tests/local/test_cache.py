"""The cache: where it is, what locks it, and what becomes of folders whose owner was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from lakestreams.errors import LocationNotWritable
from lakestreams.local import cache

ROOT = Path(cache.__file__).parents[2]


def test_order_of_the_cache_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LAKESTREAMS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.cache_dir() == tmp_path / "home" / ".cache" / "lakestreams"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "xdg" / "lakestreams"
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path / "own"))
    assert cache.cache_dir() == tmp_path / "own"


def test_lock_is_held_by_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path))
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with cache.locked("x", on_wait=waiting.set):
            order.append("second")

    with cache.locked("x"):
        other = threading.Thread(target=second)
        other.start()
        assert waiting.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


@pytest.mark.parametrize("variable", ["LAKESTREAMS_CACHE", "LAKESTREAMS_LOG_DIR"])
def test_a_folder_that_cannot_be_made_is_told_with_the_variable_that_names_it(tmp_path, monkeypatch, variable):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "file" / "below"))
    with pytest.raises(LocationNotWritable, match="below cannot be made") as told:
        cache.log_dir()
    assert variable in told.value.hint


def test_a_lock_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path))
    (tmp_path / "name.lock").mkdir()
    with pytest.raises(LocationNotWritable, match=r"name\.lock cannot be written"), cache.locked("name"):
        pass


def test_a_user_without_a_home_is_told(monkeypatch):
    def nobody():
        raise RuntimeError("Could not determine home directory.")

    for variable in ("LAKESTREAMS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cache.Path, "home", nobody)
    with pytest.raises(LocationNotWritable, match="no place for the cache"):
        cache.cache_dir()


def test_folder_of_a_killed_process_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = "import os, signal; from lakestreams.local.cache import temporary_dir; temporary_dir('t'); os.kill(os.getpid(), 9)"
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        check=False,
    )
    (left,) = tmp_path.iterdir()
    living = cache.temporary_dir("t")
    assert left.exists()  # too young to tell from one that is being made
    for folder in (left, living):
        os.utime(folder / ".owner", (time.time() - 600,) * 2)
    newest = cache.temporary_dir("t")
    assert {path.name for path in tmp_path.iterdir()} == {living.name, newest.name}
