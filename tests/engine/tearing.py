"""Checkpoints as Spark leaves them, and what a crash or a disk can make of their files."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Tear = Callable[[Path], None]


def write(file: Path, content: bytes) -> None:
    """Writes a file with Hadoop's checksum beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    pieces = (content[at : at + 512] for at in range(0, len(content), 512))
    sums = b"".join(struct.pack(">I", zlib.crc32(piece)) for piece in pieces)
    sum_of(file).write_bytes(b"crc\0" + struct.pack(">i", 512) + sums)


def sum_of(file: Path) -> Path:
    return file.parent / f".{file.name}.crc"


def lay(checkpoint: Path, topic: str, ends: list[int], committed: int) -> None:
    """A checkpoint with a batch for each end offset, the first so many of them committed."""
    write(checkpoint / "metadata", b'{"id":"0d2f9d6e-4c67-4d8f-8a9c-5a3b1d6f2f10"}')
    write(checkpoint / "sources" / "0" / "0", b"\0v1\n" + json.dumps({topic: {"0": 0}}).encode())
    conf = {"spark.sql.shuffle.partitions": "1", "padding": "x" * 600}  # longer than one piece of a checksum
    for batch, end in enumerate(ends):
        metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": conf})
        write(checkpoint / "offsets" / str(batch), f"v1\n{metadata}\n{json.dumps({topic: {'0': end}})}".encode())
    for batch in range(committed):
        write(checkpoint / "commits" / str(batch), b'v1\n{"nextBatchWatermarkMs":0}')


@dataclass(frozen=True)
class Tearing:
    """One damage.

    Attributes:
        name: file and what is done to it.
        tear: does it to a checkpoint.
    """

    name: str
    tear: Tear

    def __str__(self) -> str:
        return self.name


def read_at_start(checkpoint: Path) -> list[str]:
    """The files without which Spark does not start; relative names."""
    newest = max(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))
    committed = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    return ["metadata", f"offsets/{newest}", f"offsets/{newest - 1}", f"commits/{committed}"]


def tearings(checkpoint: Path, name: str) -> Iterator[Tearing]:
    """Everything that is done to one file."""
    size = (checkpoint / name).stat().st_size
    for length in sorted({0, 1, 2, 3, size // 4, size // 2, size - 2, size - 1}):
        for kept in (True, False):
            how = "stale" if kept else "no"
            yield Tearing(f"{name} cut to {length} bytes, {how} checksum", _cut(name, length, kept=kept))
    garbage = {"zeros": b"\0" * size, "garbage": b"\xff\xfe{]", "another JSON": b'["v1"]', "version only": b"v1",
               "version and line": b"v1\n", "no version": b"vx\n{}\n{}", "empty objects": b"v1\n{}\n{}",
               "numbers": b"v1\n1\n2", "null": b"null"}  # fmt: skip
    for what, content in garbage.items():
        yield Tearing(f"{name} is {what}", _replaced(name, content))
    yield Tearing(f"{name} is a folder", _folder(name))
    yield Tearing(f"{name} has lost its checksum's end", _torn_sum(name))
    yield Tearing(f"{name} is gone, its checksum is not", lambda root: (root / name).unlink())


def harmless(checkpoint: Path) -> Iterator[Tearing]:
    """What Spark does not look at, or does without."""
    for name in ["metadata", *read_at_start(checkpoint)[1:]]:
        yield Tearing(f"{name} without checksum", lambda root, name=name: sum_of(root / name).unlink())
    yield Tearing("a half-written temporary file", _temporary)
    yield Tearing("the source's start is gone", _gone("sources/0/0"))
    yield Tearing("the oldest entries are gone", _gone("offsets/0", "commits/0"))


def _cut(name: str, length: int, *, kept: bool) -> Tear:
    def tear(root: Path) -> None:
        content = (root / name).read_bytes()[:length]
        (root / name).write_bytes(content)
        if not kept:
            sum_of(root / name).unlink()

    return tear


def _replaced(name: str, content: bytes) -> Tear:
    return lambda root: write(root / name, content)


def _folder(name: str) -> Tear:
    def tear(root: Path) -> None:
        (root / name).unlink()
        (root / name).mkdir()

    return tear


def _torn_sum(name: str) -> Tear:
    def tear(root: Path) -> None:
        file = sum_of(root / name)
        file.write_bytes(file.read_bytes()[:-1])

    return tear


def _temporary(root: Path) -> None:
    for log in ("offsets", "commits"):
        (root / log / ".7.6b9e4d1c.tmp").write_bytes(b"v")
        (root / log / "..7.6b9e4d1c.tmp.crc").write_bytes(b"cr")


def _gone(*names: str) -> Tear:
    def tear(root: Path) -> None:
        for name in names:
            (root / name).unlink()
            sum_of(root / name).unlink()

    return tear
