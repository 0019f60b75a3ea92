"""The built site in a real browser: pages fit a screen and a phone, light and dark.

It looks at what `make docs` has built; CI builds it before the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from tests.report.browser import Browser, find

SITE = Path(__file__).parents[2] / "build" / "site"
PROGRAM = find()
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no browser: apt-get install chromium, or LAKESTREAMS_BROWSER"),
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="no site: make docs"),
]


@pytest.mark.parametrize("page", ["index", "tutorial", "pipelines", "benchmarks", "errors/LS104"])
def test_a_page_fits(page: str, tmp_path: Path) -> None:
    assert PROGRAM is not None
    backgrounds = set()
    with Browser(PROGRAM) as browser:
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for width in (1280, 390):
            for scheme in schemes:
                browser.open(SITE / f"{page}.html", width=width, scheme=scheme)
                assert browser.value("document.documentElement.scrollWidth") <= width
                assert browser.value("document.querySelectorAll('h1').length") == 1
                backgrounds.add(browser.value("getComputedStyle(document.body).backgroundColor"))
                file = tmp_path / f"{page.replace('/', '-')}-{width}-{scheme}.png"
                browser.screenshot(file, height=1_200)
                assert file.stat().st_size > 20_000
    assert len(backgrounds) == 2
