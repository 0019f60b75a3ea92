"""The site of `make docs`: every page is in its navigation, and links lead somewhere in the folder it is built from."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LISTED = re.compile(r"(errors/LS|decisions/)\d+")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        site = importlib.import_module("docs_site")
    folder = tmp_path_factory.mktemp("site") / "docs"
    site.collect(folder)
    return folder


def named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for one in (nav.values() if isinstance(nav, dict) else nav) for page in named(one)]


def navigation() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return named(yaml.safe_load(re.sub(r"!!python/\S+", "", text))["nav"])


def test_every_page_is_in_the_navigation_once(pages: Path) -> None:
    found = {str(page.relative_to(pages)) for page in pages.rglob("*.md")}
    assert sorted(navigation()) == sorted(name for name in found if not LISTED.match(name))


def test_links_lead_to_pages_of_the_site(pages: Path) -> None:
    wrong = []
    for page in pages.rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            name = link.partition("#")[0]
            if "://" not in name and name and not (page.parent / name).exists():
                wrong.append(f"{page.relative_to(pages)}: {link}")
    assert wrong == []
