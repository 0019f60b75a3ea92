"""`lakestreams dbx`: the bundle's jobs for dbx, written again."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from lakestreams.cli.screen import Screen
from lakestreams.deploy import dbx
from lakestreams.run import failure


def run(screen: Screen, root: Path) -> int:
    """Writes conf/deployment.yml from the bundle in a folder; returns the exit code."""
    changed = dbx.write(root)
    word = ("written", "bold green") if changed else ("up to date", "green")
    screen.say(Text.assemble(word, f"  {root / dbx.PLACE}"))
    screen.result({"ok": True, "file": str(root / dbx.PLACE), "changed": changed})
    return failure.OK
