"""A search for a text in everything that runs leave behind, however it is written down."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq


def spellings(text: str) -> tuple[bytes, ...]:
    """The text, of letters, digits and - alone, as bytes: plain (which JSON, URLs and JAAS leave as it is), UTF-16, hex, and
    in base64 of anything that it is a part of."""
    assert text.isascii()
    assert text.replace("-", "").isalnum()
    raw = text.encode()
    found = [raw, text.encode("utf-16-le"), raw.hex().encode(), raw.hex().upper().encode()]
    for offset in range(3):  # what its first and last bits mix with is not known
        encoded = base64.b64encode(b"\0" * offset + raw).rstrip(b"=")
        found.append(encoded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6])
    return tuple(found)


def holds(data: bytes, text: str) -> bool:
    """Whether the data hold the text in one of its spellings."""
    return any(one in data for one in spellings(text))


def found_in(root: Path, text: str) -> set[Path]:
    """The files below a folder that hold the text, or have it in their names; parquet and gzip are read as what is in them."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    assert files, f"nothing is there to be searched: {root}"
    return {
        path
        for path in files
        if holds(str(path.relative_to(root)).encode(), text) or any(holds(data, text) for data in _contents(path))
    }


def _contents(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if data.startswith(b"PAR1"):
        table = pq.read_table(path)
        yield repr(table.schema).encode() + repr(table.schema.metadata).encode()
        yield repr(table.to_pylist()).encode()
        yield b"\n".join(_binaries(table.to_pylist()))
    elif data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)


def _binaries(value: object) -> Iterator[bytes]:
    """Bytes as they are: in what Python shows of them some signs are escaped."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _binaries(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _binaries(part)
