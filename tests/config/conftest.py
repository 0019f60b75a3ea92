"""What tests of configuration files share."""

from __future__ import annotations

import pytest
from tests.config.pipeline_files import PIPELINE, SOURCES

from lakestreams.config import load_pipeline


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads the two texts as files; changes are pairs of text and replacement, in either."""
    monkeypatch.chdir(tmp_path)

    def run(*changes, sources=SOURCES, pipeline=PIPELINE):
        for old, new in changes:
            assert old in sources or old in pipeline
            sources, pipeline = sources.replace(old, new), pipeline.replace(old, new)
        (tmp_path / "conf").mkdir(exist_ok=True)
        (tmp_path / "conf/sources.yml").write_text(sources, encoding="utf-8")
        (tmp_path / "conf/enrichment.yml").write_text(pipeline, encoding="utf-8")
        return load_pipeline("conf/enrichment.yml")

    return run
