"""The code blocks of a page, for the tests that run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakestreams import Topology

_BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is to be saved as ("": none), and its text."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def topology_of(code: str) -> Topology:
    """Runs a block of Python and returns what it calls `topology`."""
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    found = names["topology"]
    assert isinstance(found, Topology)
    return found
