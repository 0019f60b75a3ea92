"""Spark's checkpoint of the ingest query, read as files: which offsets a batch ends at, and whether it fits bronze.

A checkpoint is a convenience here, never the truth: bronze says what was ingested (docs/decisions/0006-checkpoints.md).
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakestreams.kafka.noted import TopicPartition

_VERSION: Final = re.compile(r"v[1-9][0-9]*")
_READ: Final = 2  # so many of the newest entries of a log Spark looks at when a query starts
_SUMS: Final = b"crc\0"  # how Hadoop's files of checksums begin


def read_offsets(file: Path) -> dict[TopicPartition, int]:
    """The end offsets in one file of a checkpoint's offset log; empty if it cannot be read.

    The file has a version, a line of metadata and one line a source, for Kafka {"topic": {"partition": offset}}.
    """
    try:
        version, metadata, ends = file.read_text(encoding="utf-8").strip().split("\n")
        if not _VERSION.fullmatch(version) or not isinstance(json.loads(metadata), dict):
            return {}
        # from version 2 on the source's number stands before its offsets
        return _offsets(ends if ends.startswith("{") else ends.partition(":")[2])
    except (OSError, ValueError):
        return {}


def read_starts(checkpoint: Path, batch_id: int) -> dict[TopicPartition, int]:
    """The offsets at which a batch begins, of partitions that were there before it; empty if they cannot be read.

    Those are the ends of the batch before it. The first one begins where the source began.
    """
    if batch_id:
        return read_offsets(checkpoint / "offsets" / str(batch_id - 1))
    try:
        return _source_starts(checkpoint / "sources" / "0" / "0")
    except OSError:
        return {}


def _offsets(text: str) -> dict[TopicPartition, int]:
    """Kafka's offsets as Spark writes them; empty if they are none."""
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        return {}


@dataclass(frozen=True)
class Generation:
    """A checkpoint folder, and where its query begins if it is new."""

    path: Path
    starting_offsets: str | None


def choose_generation(
    root: Path, topics: Iterable[str], partitions: Iterable[TopicPartition], positions: Mapping[TopicPartition, int]
) -> Generation:
    """The checkpoint to go on with: the newest one if it fits bronze, else a new generation at bronze's positions.

    A checkpoint behind bronze is read and deduplicated. One that is ahead of bronze (it would lose records), damaged,
    of other topics, or absent is replaced; the old folder stays for whoever wants to look.

    Args:
        root: the pipeline's checkpoint folder.
        topics: the pipeline's topics.
        partitions: every topic-partition there is now.
        positions: where bronze stands.
    """
    found = _generations(root)
    if found and _fits(found[-1], set(topics), positions):
        return Generation(found[-1], None)
    return new_generation(root, partitions, positions)


def new_generation(
    root: Path, partitions: Iterable[TopicPartition], positions: Mapping[TopicPartition, int]
) -> Generation:
    """A checkpoint that is not there yet, at bronze's positions; the arguments are those of `choose_generation`."""
    starting: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(partitions):
        starting.setdefault(topic, {})[str(partition)] = positions.get((topic, partition), -2)  # -2: earliest
    newest = max((_number(folder) for folder in _generations(root)), default=0)
    return Generation(root / f"gen-{newest + 1:05d}", json.dumps(starting))


def discard_old(root: Path, untouched_since_s: float, *, dry_run: bool = False) -> int:
    """Removes checkpoints that a newer one has replaced, unless they are still young: how many.

    Args:
        root: the pipeline's checkpoint folder.
        untouched_since_s: seconds since 1970; younger ones stay for whoever wants to look.
        dry_run: remove none.
    """
    old = _generations(root)[:-1]
    found = [folder for folder in old if folder.stat().st_mtime <= untouched_since_s]
    if not dry_run:
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
    return len(found)


def _generations(root: Path) -> list[Path]:
    return sorted((folder for folder in root.glob("gen-*") if folder.name[4:].isdecimal()), key=_number)


def _number(generation: Path) -> int:
    return int(generation.name[4:])


def _fits(checkpoint: Path, topics: set[str], positions: Mapping[TopicPartition, int]) -> bool:
    """Whether Spark can start from a checkpoint, as far as its files tell, and loses nothing then."""
    try:
        return _is_whole(checkpoint) and _is_of(checkpoint, topics) and not _is_ahead(checkpoint, positions)
    except OSError:  # not to be looked at, or a folder in the place of a file
        return False


def _is_of(checkpoint: Path, topics: set[str]) -> bool:
    newest = read_offsets(_entries(checkpoint / "offsets")[-1])
    return {topic for topic, _ in newest} == topics


def _is_ahead(checkpoint: Path, positions: Mapping[TopicPartition, int]) -> bool:
    """Whether it has committed what bronze does not hold."""
    committed = _entries(checkpoint / "commits")[-1:]
    ends = read_offsets(checkpoint / "offsets" / committed[0].name) if committed else {}
    return any(positions.get(at, 0) < offset for at, offset in ends.items())


def _is_whole(checkpoint: Path) -> bool:
    """Whether everything is there, and can be read, that Spark reads when a query starts."""
    offsets, commits = _entries(checkpoint / "offsets"), _entries(checkpoint / "commits")
    sources = _entries(checkpoint / "sources" / "0")
    if not offsets or not (commits or sources):  # it would begin with the earliest offsets
        return False
    if commits and (checkpoint / "offsets" / commits[-1].name) not in offsets:
        return False  # a commit without its offsets: Spark would run an older batch again
    folders = [checkpoint, *(checkpoint / name for name in ("offsets", "commits", "sources/0"))]
    return (
        _is_metadata(checkpoint / "metadata")
        and _has_one_before(offsets)
        and all(read_offsets(file) for file in offsets[-_READ:])
        and all(_is_commit(file) for file in commits[-_READ:])
        and all(_source_starts(file) for file in sources)
        and all(_checksums_agree(folder) for folder in folders)
    )


def _has_one_before(offsets: list[Path]) -> bool:
    """Whether the newest entry has the one before it, which Spark reads, too."""
    newest = int(offsets[-1].name)
    return newest == 0 or int(offsets[-2:][0].name) == newest - 1


def _is_metadata(file: Path) -> bool:
    return isinstance(_json(file.read_bytes()).get("id"), str)


def _is_commit(file: Path) -> bool:
    """A version, and a line of metadata."""
    version, _, metadata = file.read_bytes().partition(b"\n")
    return bool(_VERSION.fullmatch(version.decode("latin-1"))) and "nextBatchWatermarkMs" in _json(metadata)


def _source_starts(file: Path) -> dict[TopicPartition, int]:
    """The offsets at which the source began: a zero byte, a version, and a line of offsets; empty if it has none."""
    version, _, offsets = file.read_bytes().partition(b"\n")
    is_known = version[:1] == b"\0" and _VERSION.fullmatch(version[1:].decode("latin-1"))
    return _offsets(offsets.decode("utf-8", "replace")) if is_known else {}


def _json(text: bytes) -> dict[str, object]:
    """A JSON object; empty if it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _checksums_agree(folder: Path) -> bool:
    """Whether Hadoop's checksums are those of their files, where it keeps any; else it would refuse to read them."""
    sums = [file for file in folder.glob(".*.crc") if not file.name.endswith(".tmp.crc")]
    # a checksum without its file: Spark could not write that file again
    return all(_is_sum_of(one.read_bytes(), folder / one.name[1:-4]) for one in sums if _is_read(one, folder))


def _is_read(sums: Path, folder: Path) -> bool:
    """Whether Spark looks at the file of a checksum: it is no old entry of a log."""
    name = sums.name[1:-4]
    if not name.isdecimal():
        return name == "metadata"
    return not (folder / name).exists() or (folder / name) in _entries(folder)[-_READ:]


def _is_sum_of(sums: bytes, file: Path) -> bool:
    content = file.read_bytes()
    if sums[:4] != _SUMS or len(sums) < 8:
        return False
    (size,) = struct.unpack(">i", sums[4:8])
    if size <= 0:
        return False
    pieces = (content[at : at + size] for at in range(0, len(content), size))
    return sums[8:] == b"".join(struct.pack(">I", zlib.crc32(piece)) for piece in pieces)


def _entries(log: Path) -> list[Path]:
    """The entries of a log, by their number; a folder among them is one that cannot be read."""
    return sorted((file for file in log.glob("*") if file.name.isdecimal()), key=lambda file: int(file.name))
