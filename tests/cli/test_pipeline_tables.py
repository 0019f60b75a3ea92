"""`lakestreams.open`: which file it takes, before any session is started."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakestreams
from lakestreams.errors import ConfigUnreadable, DuplicateName, UnknownReference
from lakestreams.run import pipeline_tables

SOURCES = """
topics:
  Views: {kind: stream, key: {text: user}, value: {text: page}}
kafka: {bootstrap_servers: localhost:9092}
"""
PIPELINE = """
pipeline: NAME
steps:
  wanted: {filter: {from: Views, where: page <> '/'}}
outputs:
  silver.views: {from: wanted}
"""


@pytest.fixture(autouse=True)
def _conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "sources.yml").write_text(SOURCES)
    (conf / "views.yml").write_text(PIPELINE.replace("NAME", "page_views"))
    (conf / "other.yml").write_text(PIPELINE.replace("NAME", "other_views"))
    (conf / "broken.yml").write_text("pipeline: [")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline_tables, "open_session", lambda: None)


@pytest.mark.parametrize("pipeline", ["page_views", "conf/views.yml", Path("conf/views.yml")])
def test_a_pipeline_is_opened_by_its_name_or_its_file(pipeline: str | Path) -> None:
    assert lakestreams.open(pipeline).topology.name == "page_views"


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UnknownReference, match="no pipeline of that name in conf/") as caught:
        lakestreams.open("page_view")
    assert caught.value.hint == "there are: other_views (conf/other.yml), page_views (conf/views.yml)"


def test_where_there_is_none_a_file_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UnknownReference) as caught:
        lakestreams.open("page_views")
    assert caught.value.hint == f"the path of the pipeline's file; {tmp_path / 'empty' / 'conf'} has none"


def test_a_name_that_two_files_have_is_refused() -> None:
    Path("conf/again.yml").write_text(PIPELINE.replace("NAME", "page_views"))
    with pytest.raises(DuplicateName, match=r"conf/again\.yml, conf/views\.yml"):
        lakestreams.open("page_views")


@pytest.mark.parametrize("pipeline", ["conf/page_views", "page_views.yml", Path("page_views")])
def test_a_path_is_never_taken_for_a_name(pipeline: str | Path) -> None:
    with pytest.raises(ConfigUnreadable, match="there is no file"):
        lakestreams.open(pipeline)
