"""Which topology and configuration something was made with, as short texts for the ledger."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.topology import results

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology

_BETWEEN = "\n---\n"


@dataclass(frozen=True)
class Configuration:
    """What a run is configured by.

    Attributes:
        whole: the fingerprint of everything that is configured.
        text: what that is of.
        semantics: the fingerprint of what results follow from (`of_state`): equal ones give equal results.
        results: what results follow from, node by node, as JSON (`topology.results`); empty: not known.
    """

    whole: str
    text: str
    semantics: str
    results: str = ""


def of(topology: Topology, config_text: str, semantics: str | None = None) -> Configuration:
    """Of a topology and what else is configured; of that, the part that results follow from: by default all of it."""
    text = f"{topology.describe()}{_BETWEEN}{config_text}"
    own = of_state(topology, config_text if semantics is None else semantics)
    by_node = results.of(topology)
    # the text does not have what Python functions do
    return Configuration(_short(text + results.functions(by_node), 16), text, own, json.dumps(by_node))


def describes(text: str, topology: Topology) -> bool:
    """Whether such a text is of this topology, whatever else was configured."""
    return text.startswith(f"{topology.describe()}{_BETWEEN}")


def parts(text: str) -> tuple[str, str]:
    """The description of the topology in such a text, and what else was configured, which has no line of its own `---`."""
    description, _, config_text = text.rpartition(_BETWEEN)
    return description, config_text


def of_state(topology: Topology, semantics: str) -> str:
    """Of what decides what the nodes keep of the past; how often runs start and other pipelines' topics do not."""
    return f"{_short(topology.semantics(), 8)}-{_short(semantics, 8)}"


def is_of(fingerprint: str, topology: Topology) -> bool:
    """Whether a state was kept by this topology, whatever its configuration."""
    return fingerprint.partition("-")[0] == _short(topology.semantics(), 8)


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
