"""Spark's checkpoint of the ingest query, read as files: which offsets a batch ends at, and whether it fits bronze.

A checkpoint is a convenience here, never the truth: bronze says what was ingested (docs/decisions/0006-checkpoints.md).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakestreams.engine.plans import TopicPartition


def read_offsets(file: Path) -> dict[TopicPartition, int]:
    """The end offsets in one file of a checkpoint's offset log; empty if it cannot be read.

    The file has a version, a line of metadata and one line a source, for Kafka {"topic": {"partition": offset}}.
    """
    try:
        lines = file.read_text(encoding="utf-8").strip().splitlines()
        ends = json.loads(lines[-1])
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in ends.items()
            for partition, offset in partitions.items()
        }
    except (OSError, ValueError, IndexError, AttributeError, TypeError):
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
    numbers = sorted(int(folder.name[4:]) for folder in root.glob("gen-*") if folder.name[4:].isdigit())
    if numbers:
        newest = root / f"gen-{numbers[-1]:05d}"
        if _fits(newest, set(topics), positions):
            return Generation(newest, None)
    starting: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(partitions):
        starting.setdefault(topic, {})[str(partition)] = positions.get((topic, partition), -2)  # -2: earliest
    return Generation(root / f"gen-{(numbers[-1] if numbers else 0) + 1:05d}", json.dumps(starting))


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
    return sorted(folder for folder in root.glob("gen-*") if folder.name[4:].isdigit())


def _fits(checkpoint: Path, topics: set[str], positions: Mapping[TopicPartition, int]) -> bool:
    offsets, commits = _log(checkpoint / "offsets"), _log(checkpoint / "commits")
    if not (checkpoint / "metadata").is_file() or not offsets:
        return False
    if _orphaned(checkpoint / "offsets") or _orphaned(checkpoint / "commits"):
        return False  # a checksum without its file: Spark could not write that file again
    if commits and commits[-1] not in offsets:
        return False  # a commit without its offsets: Spark would run an older batch again
    newest = read_offsets(checkpoint / "offsets" / str(offsets[-1]))
    if {topic for topic, _ in newest} != topics:
        return False
    committed = read_offsets(checkpoint / "offsets" / str(commits[-1])) if commits else {}
    if commits and not committed:
        return False
    if commits and not (checkpoint / "commits" / str(commits[-1])).stat().st_size:
        return False  # an empty commit file: Spark refuses to start
    return all(positions.get(at, 0) >= offset for at, offset in committed.items())


def _orphaned(folder: Path) -> bool:
    checksums = {int(file.name[1:-4]) for file in folder.glob(".*.crc") if file.name[1:-4].isdigit()}
    return not checksums <= set(_log(folder))


def _log(folder: Path) -> list[int]:
    return sorted(int(file.name) for file in folder.glob("*") if file.name.isdigit())
