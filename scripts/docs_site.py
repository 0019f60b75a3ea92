"""Builds the documentation site from the pages of the tree: README is its first page, docs/ the others.

The site has one folder of pages, so README and its neighbours are copied beside those of docs/, and links between the
two are shortened. Run by `make docs`; needs requirements/docs.txt.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ROOT / "build" / "docs"
BESIDE: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
_TO_DOCS: Final = re.compile(r"\]\(docs/")
_TO_ROOT: Final = re.compile(r"\]\(((?:\.\./)*)\.\./(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md")


def collect(pages: Path) -> None:
    """Writes all pages into one folder, whose former content goes."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    for page in pages.rglob("*.md"):
        depth = len(page.relative_to(pages).parts) - 1
        page.write_text(inside(page.read_text(encoding="utf-8"), depth), encoding="utf-8")
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        (pages / name.replace("README", "index")).write_text(_TO_DOCS.sub("](", text), encoding="utf-8")


def inside(text: str, depth: int) -> str:
    """A page of docs/ with its links to the tree's top led to their copies; `depth` is how deep it lies in docs/."""

    def link(found: re.Match[str]) -> str:
        up, name = found.groups()
        if len(up) != 3 * depth:
            return found[0]
        return f"]({up}{name.replace('README', 'index')}.md"

    return _TO_ROOT.sub(link, text)


def main() -> int:
    """Collects the pages and builds the site; any warning is an error."""
    collect(PAGES)
    command = [
        str(Path(sys.executable).parent / "zensical"),
        "build",
        "--strict",
        "--config-file",
        str(ROOT / "mkdocs.yml"),
    ]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
