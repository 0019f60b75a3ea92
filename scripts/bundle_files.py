"""Writes databricks.yml, resources/, dashboards/ and conf/deployment.yml: the template of `lakestreams init`, rendered for this project.

`--check` writes nothing and fails if a file is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lakestreams.deploy.template import OWN, render

ROOT: Final = Path(__file__).parents[1]


def outdated(root: Path = ROOT) -> list[str]:
    """Names of the files that are missing, have another text, or are not the template's."""
    wanted = render(OWN)
    there = {f"{folder}/{file.name}" for folder in ("resources", "dashboards") for file in (root / folder).glob("*")}
    return sorted(name for name in there | wanted.keys() if _text(root / name) != wanted.get(name))


def main(arguments: Sequence[str]) -> int:
    """Writes the files, or with `--check` only says which ones are not up to date."""
    names = outdated()
    if "--check" in arguments:
        print("\n".join(f"{name} is not up to date" for name in names), file=sys.stderr)
        return int(bool(names))
    for name, text in render(OWN).items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
    for name in names:
        if name not in render(OWN):
            (ROOT / name).unlink()
    print(f"{len(names)} files changed")
    return 0


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
