"""Ctrl-C while a process that outlives its command is started: nobody knows of it yet, so it must not stay."""

from __future__ import annotations

import psutil
import pytest

from lakestreams.errors import BrokerNotReady
from lakestreams.local import broker_process, registry


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A Java that does nothing for a minute."""
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho it waits\nexec sleep 60\n")
    program.chmod(0o755)
    (tmp_path / "a-runner.jar").write_text("")
    monkeypatch.setattr(registry, "find_java", lambda: program)
    monkeypatch.setattr(registry, "program", lambda _progress: tmp_path)
    return program


def of(folder) -> list[psutil.Process]:
    """The processes that were started for a folder."""
    return [one for one in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(one.info["cmdline"] or ())]


@pytest.mark.parametrize("detach", [True, False])
def test_an_interrupted_start_of_the_registry_leaves_no_process(java, tmp_path, monkeypatch, detach):
    folder = tmp_path / "registry"
    folder.mkdir()
    started = []

    def interrupted(_port):
        started.extend(of(folder))
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        registry._launched(folder, 1, detach=detach, progress=None)
    assert started
    assert of(folder) == []
    assert not folder.exists()


def test_a_registry_that_does_not_answer_shows_its_log(java, tmp_path, monkeypatch):
    """Its guard removes the log together with the folder, so it is read before that."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setattr(registry, "_READY_WITHIN_S", 0.5)
    monkeypatch.setattr(registry, "_answers", lambda _port: False)
    with pytest.raises(BrokerNotReady, match="it waits"):
        registry._launched(folder, 1, detach=True, progress=None)


def test_an_interrupted_start_of_the_broker_leaves_no_process(java, tmp_path, monkeypatch):
    class Interrupted(broker_process.subprocess.Popen):
        """Whose first line nobody waits for long enough to read."""

        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.stdout.close()
            self.stdout = self

        def __enter__(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(broker_process.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        broker_process._spawn(tmp_path, [str(java)], (1, 2), detach=True, remove=False)
    assert of(tmp_path) == []
