"""Cases of topologies as values: what goes in, and what should come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakestreams.config.compile import Pipeline
    from lakestreams.testing.histories import Piped
    from lakestreams.topology.topology import Topology


@dataclass(frozen=True)
class Expected:
    """A record that should come out; `kind` and `after` (a place in `given`) where they are to be compared."""

    key: Any
    value: dict[str, Any] | None
    timestamp: int
    kind: str | None = None
    after: int | None = None


@dataclass(frozen=True)
class Case:
    """A case, checked.

    Attributes:
        name: what it shows.
        where: file and line.
        given: the records that go in.
        expect: output to its records, in order.
        refused: (place in `given`, code) of each record that is refused; None if that is not compared.
        table: output to its (key, value) rows, in any order.
    """

    name: str
    where: str
    given: tuple[Piped, ...]
    expect: Mapping[str, tuple[Expected, ...]]
    refused: tuple[tuple[int, str], ...] | None
    table: Mapping[str, tuple[tuple[Any, dict[str, Any]], ...]]


@dataclass(frozen=True)
class Suite:
    """The cases of a file, and what they are of.

    Attributes:
        file: as the user knows it.
        topology: the same value for all files that name the same one.
        pipeline: where it comes from, if from a pipeline's file.
        partitions: topic to partition count.
        cases: in their order.
    """

    file: str
    topology: Topology
    pipeline: Pipeline | None
    partitions: Mapping[str, int]
    cases: tuple[Case, ...]
