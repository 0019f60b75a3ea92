"""Files of `lakestreams test`: found, read and checked as far as that goes without Spark, every fault at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakestreams.config.cases import CasesFile
from lakestreams.config.compile import Pipeline, load_pipeline
from lakestreams.config.load import Document, read
from lakestreams.config.python import importing_from, topology_of
from lakestreams.config.validate import validate
from lakestreams.errors import ConfigUnreadable, LakestreamsError, TopologyInvalid, unfold
from lakestreams.testing.case_checks import Checker
from lakestreams.testing.cases import Suite

if TYPE_CHECKING:
    from lakestreams.topology.topology import Topology

# What tells a file of cases from other YAML in a folder, without reading it as YAML.
_HAS_CASES = re.compile(r"^cases\s*:", re.MULTILINE)
_ENDINGS: Final = (".yml", ".yaml")


@dataclass(frozen=True)
class CaseFiles:
    """Files of cases, and how many other YAML files lay next to them."""

    files: tuple[Path, ...]
    others: int = 0


def find(places: Iterable[Path]) -> CaseFiles:
    """The files of cases in some places: a file is one; of a folder all YAML files that have cases, at any depth.

    Raises:
        ConfigUnreadable: if a place is not there, or no file is found.
    """
    files: dict[Path, None] = {}
    others = 0
    for place in places:
        if place.is_file():
            files.setdefault(place)
            continue
        if not place.is_dir():
            msg = f"there is no file or folder {place}"
            raise ConfigUnreadable(
                msg, hint="name a file of cases, or a folder that has some; lakestreams init pipeline NAME writes one"
            )
        for path in sorted(place.rglob("*")):
            if path.suffix in _ENDINGS and path.is_file() and not _hidden(path.relative_to(place)):
                if _has_cases(path):
                    files.setdefault(path)
                else:
                    others += 1
    if not files:
        msg = f"no YAML file in {', '.join(map(str, places))} has a key `cases`"
        raise ConfigUnreadable(
            msg, hint="name a file of cases, or a folder that has some; lakestreams init pipeline NAME writes one"
        )
    return CaseFiles(tuple(files), others)


def _has_cases(path: Path) -> bool:
    """Whether a file has cases; one that cannot be read may have some, and is reported when they are."""
    try:
        return _HAS_CASES.search(path.read_text(encoding="utf-8-sig", errors="replace")) is not None
    except OSError:
        return True


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def load(files: Sequence[Path]) -> list[Suite]:
    """Reads and checks files of cases; Python topologies are imported from the working directory, too.

    Raises:
        TopologyInvalid: with the faults of all files, each with file and line.
    """
    reader = _Reader()
    suites = []
    for file in files:
        suite = reader.suite(file)
        if suite is not None:
            suites.append(suite)
    if reader.faults:
        raise TopologyInvalid(reader.faults)
    return suites


@dataclass
class _Reader:
    """Reads files one after another; topologies that several of them name are made once."""

    faults: list[LakestreamsError] = field(default_factory=list)
    _known: dict[object, tuple[Topology, Pipeline | None] | None] = field(default_factory=dict)

    def suite(self, path: Path) -> Suite | None:
        """A file's cases; None if it has faults, which are noted."""
        try:
            document = read(path, keep=frozenset({("cases",)}))
        except LakestreamsError as fault:
            self.faults.append(fault)
            return None
        file, _ = validate(CasesFile, document)
        made = self._topology(file, document) if file is not None else None
        suite = None
        if file is not None and made is not None:
            suite = Checker(file, document, *made).suite()
        self.faults += document.faults
        return suite

    def _topology(self, file: CasesFile, document: Document) -> tuple[Topology, Pipeline | None] | None:
        """The topology that a file names; the faults of a pipeline's files are noted once."""
        folder = document.path.parent
        same: object = file.topology
        if file.pipeline is not None:
            same = (folder / file.pipeline).resolve(), file.sources and (folder / file.sources).resolve()
        if same not in self._known:
            self._known[same] = self._built(file, document)
        return self._known[same]

    def _built(self, file: CasesFile, document: Document) -> tuple[Topology, Pipeline | None] | None:
        folder = document.path.parent
        with importing_from(Path.cwd()):
            if file.topology is not None:
                topology = topology_of(file.topology, document, ("topology",))
                return None if topology is None else (topology, None)
            try:
                pipeline = load_pipeline(folder / str(file.pipeline), folder / file.sources if file.sources else None)
            except LakestreamsError as error:
                self.faults += unfold(error)
                return None
        return pipeline.topology, pipeline
