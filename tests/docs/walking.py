"""Walks through a page as its reader does: saves its files, types its commands in order, and compares what they print."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.docs.blocks import Block, blocks
from typer.testing import CliRunner

from lakestreams.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = re.compile(r"\b\d+\.\d+ s\b")
_NAMED = re.compile(r"\A# (\S+\.(?:yml|yaml|py))$", re.MULTILINE)
_OURS = ("lakestreams", "cd")


def plain(text: str) -> list[str]:
    """Lines without what differs between runs: seconds, the width of columns, empty lines."""
    lines = [re.sub(r"[ ─]+", " ", SECONDS.sub("... s", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def assert_shown(shown: str, printed: str) -> None:
    """Each line that a page shows was printed, in this order."""
    lines = iter(plain(printed))
    missing = [line for line in plain(shown) if line not in lines]
    assert not missing, f"{missing} not in, or not in this order:\n{printed}"


def walk(
    page: str,
    servers: str,
    *,
    before: Mapping[str, Callable[[], object]] | None = None,
    fails: Iterable[str] = (),
    python: Callable[[str], object] | None = None,
) -> list[str]:
    """Walks through a page in the working directory.

    Args:
        page: its name in docs/.
        servers: the broker's address, for commands of a reader's own broker.
        before: what happens before a command, by the command: what the page says in words.
        fails: commands that are meant to fail.
        python: what runs a block of Python; without it such blocks are left out.

    Returns:
        The commands, in order.
    """
    typed: list[str] = []
    output = ""
    for block in blocks(DOCS / page):
        file = _file(block)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            output = ""
            for line in filter(None, map(command, block.text.splitlines())):
                (before or {}).get(line, lambda: None)()
                output += ran(line, servers, fails=line in fails)
                typed.append(line)
        elif block.language == "text" and output:
            assert_shown(block.text, output)
            output = ""
        elif block.language == "python" and python is not None:
            python(block.text)
    return typed


def ran(line: str, servers: str, *, fails: bool = False) -> str:
    """What a command prints; the test has a broker of its own instead of the reader's."""
    words, _, target = line.partition(" > ")
    program, *arguments = shlex.split(words)
    if program == "cd":
        os.chdir(arguments[0])
        return ""
    if arguments[0] == "local":
        if arguments[1] in ("up", "down"):
            return ""
        arguments += ["--bootstrap-servers", servers]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == (1 if fails else 0), f"{line}\n{result.output}"
    if target:
        Path(target).write_text(result.stdout, encoding="utf-8")
    return result.output


def _file(block: Block) -> Path | None:
    named = _NAMED.match(block.text) if block.language in ("yaml", "python") else None
    return Path(block.title or named[1]) if block.title or named else None


def command(line: str) -> str | None:
    """A command without its comment; None for one of another program."""
    typed = re.sub(r"\s+#.*$", "", line).strip()
    return typed if typed.partition(" ")[0] in _OURS else None
