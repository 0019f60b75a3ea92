"""`docs/python-api.md` is what the docstrings say, and has every public name."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import lakestreams

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    made = importlib.import_module("python_api").page()
    assert (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8") == made, "run: python scripts/python_api.py"
    inside = {
        "Fields",
        "LakestreamsError",
        "MaybeFields",
        "__version__",
        "open",
    }  # types that functions get, and errors with pages
    assert [name for name in lakestreams.__all__ if name not in inside and name not in made] == []
    assert "lakestreams.open(" in made
