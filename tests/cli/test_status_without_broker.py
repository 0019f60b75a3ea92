"""What `lakestreams status` says of topics' ends where no broker answers: the coded error of the other commands, as a note."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lakestreams.cli import status
from lakestreams.config.compile import load_pipeline
from lakestreams.engine.ledger.plans import History
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import BrokerUnreachable
from lakestreams.kafka.admin_cluster import AdminCluster
from lakestreams.kafka.cluster_view import ClusterView

SOURCES = """\
kafka: {{bootstrap_servers: "{servers}"}}
topics:
  Views: {{topic: views, kind: stream, key: {{text: user}}, value: {{json: "page string"}}}}
"""
PIPELINE = "pipeline: p\noutputs:\n  silver.views: {from: Views}\n"


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_note_has_the_code_the_words_and_what_to_do(
    nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakestreams.kafka.cluster.TIMEOUT_S", 1.0)
    (tmp_path / "sources.yml").write_text(SOURCES.format(servers=nobody), encoding="utf-8")
    (tmp_path / "p.yml").write_text(PIPELINE, encoding="utf-8")
    view, (note,) = status._view(None, Lake(str(tmp_path)), load_pipeline(tmp_path / "p.yml"))  # type: ignore[arg-type]
    assert view.ends == {}
    assert note.startswith(f"LS301: ends are unknown, no broker answers at {nobody}: Failed ")
    assert note.endswith(f". Fix: {BrokerUnreachable.hint}")


def test_no_error_shows_the_clients_object(nobody: str) -> None:
    with pytest.raises(BrokerUnreachable) as told:
        AdminCluster(nobody, timeout_s=1).view(["views"])
    assert told.value.message.startswith(f"no broker answers at {nobody}: Failed ")
    assert told.value.message.endswith("Timed out")
    with pytest.raises(BrokerUnreachable) as told:
        AdminCluster(nobody).partitions(1)
    assert "{" not in told.value.message


def test_records_that_a_topic_no_longer_has_are_not_behind() -> None:
    """Before a first run nothing was read, but a topic with a retention does not begin at 0."""
    view = ClusterView({("t", 0): 110, ("t", 1): 7}, starts={("t", 0): 100})
    assert [(one.partition, one.lag) for one in status._partitions(History(), view)] == [(0, 10), (1, 7)]
    assert status._partitions(History(), None) == []
