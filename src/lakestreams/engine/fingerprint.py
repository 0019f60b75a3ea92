"""Which topology and configuration something was made with, as short texts for the ledger."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestreams.topology.builder import Topology

_BETWEEN = "\n---\n"


def whole(topology: Topology, config_text: str) -> tuple[str, str]:
    """Of everything that was configured: the fingerprint, and the text that it is of."""
    text = f"{topology.describe()}{_BETWEEN}{config_text}"
    return _short(text, 16), text


def describes(text: str, topology: Topology) -> bool:
    """Whether such a text is of this topology, whatever else was configured."""
    return text.startswith(f"{topology.describe()}{_BETWEEN}")


def of_state(topology: Topology, meaning: str) -> str:
    """Of what decides what the nodes keep of the past; the pace of runs and other pipelines' topics do not."""
    return f"{_short(topology.meaning(), 8)}-{_short(meaning, 8)}"


def is_of(fingerprint: str, topology: Topology) -> bool:
    """Whether a state was kept by this topology, whatever its configuration."""
    return fingerprint.partition("-")[0] == _short(topology.meaning(), 8)


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
