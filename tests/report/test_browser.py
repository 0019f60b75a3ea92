"""The page in a real headless browser: it draws, it asks for nothing, it fits, and what is pointed at speaks.

Without a browser these are skipped. With LAKESTREAMS_BROWSER, which CI sets, one must be there and must work.
"""

from __future__ import annotations

import pytest
from tests.report import events
from tests.report.browser import Browser, find

from lakestreams.report import page
from lakestreams.report.build import build

PROGRAM = find()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no browser: apt-get install chromium, or LAKESTREAMS_BROWSER")
_LONG = "a_name_that_somebody_has_made_as_long_as_the_rules_allow_" * 4


@pytest.fixture(scope="module")
def browser():
    with Browser(PROGRAM or "") as running:
        yield running


def written(folder, *, long_names=False, cycles=24):
    topology = events.topology()
    log, quarantine = events.log(cycles), events.quarantine(values=True)
    if long_names:
        log = [{**row, "origin": row["origin"].replace('"matched"', f'"{_LONG}"'),
                "details": row["details"].replace("amount_positive", _LONG).replace("EXPECTATION", _LONG)}
               for row in log]  # fmt: skip
        for one in quarantine:
            one["node"] = one["examples"][0]["message"] = _LONG
    report = build(events.PIPELINE, log, quarantine)
    text = page.render(report, topology.svg(counts=report.rows_out), [node.name for node in topology.nodes])
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


# Of all that lies in the page's flow: what sticks out of the window although nothing scrolls or hides it.
_STICKING_OUT = """
[...document.querySelectorAll('main *')].filter(one => {
  for (let up = one.parentElement; up; up = up.parentElement)
    if (getComputedStyle(up).overflowX !== 'visible') return false;
  const box = one.getBoundingClientRect();
  return box.width && (box.right > window.innerWidth + 0.5 || box.left < -0.5);
}).map(one => one.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize(
    ("width", "scheme", "long_names"),
    [
        (390, "light", False),
        (390, "dark", True),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((768, "light", True), (1280, "dark", False))),
        pytest.param(1280, "light", True, marks=pytest.mark.slow),
    ],
)
def test_the_page_fits_and_says_nothing(browser, tmp_path, width, scheme, long_names):
    browser.told.clear()
    browser.requested.clear()
    file = written(tmp_path, long_names=long_names)
    browser.open(file, width=width, scheme=scheme)
    assert browser.told == [], "neither an error nor a warning, nor anything that its policy has kept out"
    assert browser.requested == [file.as_uri()]
    assert browser.value("window.innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(_STICKING_OUT) == []
    paper = browser.value("getComputedStyle(document.querySelector('section')).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 26)"}[scheme]
    drawn = browser.value("[...document.querySelectorAll('.chart')].map(one => one.getBoundingClientRect().height)")
    assert len(drawn) == 6
    assert min(drawn) > 150
    browser.screenshot(tmp_path / f"report-{width}-{scheme}.png")
    picture = (tmp_path / f"report-{width}-{scheme}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 50_000, "an empty page would be smaller"


# Of what no box of its own scrolls: what is wider than the window.
_TOO_WIDE = """
[...document.querySelectorAll('main, main *')].filter(one =>
  one.getBoundingClientRect().width > window.innerWidth + 0.5 && !one.parentElement.closest('.scroll')
).map(one => one.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("long_names", [False, True])
def test_nothing_is_wider_than_a_phone_but_what_scrolls_by_itself(browser, tmp_path, long_names):
    browser.open(written(tmp_path, long_names=long_names, cycles=3), width=390)
    assert browser.value(_TOO_WIDE) == []
    assert browser.value(_STICKING_OUT) == []
    boxes = browser.value("[...document.querySelectorAll('.scroll')].map(one => [one.clientWidth, one.scrollWidth])")
    assert all(visible < 390 for visible, _ in boxes)
    assert any(whole > visible for visible, whole in boxes), "tables have more columns than a phone shows"
    examples = "[...document.querySelectorAll('details[open] .message')].map(one => one.getBoundingClientRect().right)"
    assert max(browser.value(examples)) <= 390, "why a record is in quarantine is read without scrolling"
    table = "document.querySelector('#nodes .scroll')"
    name = f"{table}.querySelector('td.name')"
    before = browser.value(f"{name}.getBoundingClientRect().left")
    browser.value(f"{table}.scrollLeft = 200")
    assert browser.value(f"{name}.getBoundingClientRect().left") == before, "names stay where they are"


@pytest.mark.parametrize("width", [390, 1280])
def test_charts_use_their_width_with_three_cycles(browser, tmp_path, width):
    browser.open(written(tmp_path, cycles=3), width=width)
    used = browser.value("""
    [...document.querySelectorAll('.chart')].map(chart => {
      const boxes = [...chart.querySelectorAll('.strip rect')].map(one => one.getBoundingClientRect());
      const whole = chart.getBoundingClientRect().width;
      return [boxes.length, (Math.max(...boxes.map(one => one.right)) - Math.min(...boxes.map(one => one.left))) / whole,
        whole / chart.closest('section').getBoundingClientRect().width];
    })
    """)
    assert sorted(places for places, *_ in used) == [3, 3, 3, 3, 3, 8]
    assert all(share > 0.8 for _, *shares in used for share in shares)


def test_a_printed_page_is_light_and_whole(browser, tmp_path):
    browser.open(written(tmp_path, cycles=3), width=718, scheme="dark")  # A4 within its margins
    browser.ask(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    try:
        paper = browser.value("getComputedStyle(document.querySelector('section')).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        assert browser.value("document.documentElement.scrollWidth") <= 718
        assert (
            browser.value("[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > 718).length") == 0
        )
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="", features=[])


def test_what_is_wrong_with_a_page_is_noticed(browser, tmp_path):
    browser.told.clear()
    browser.requested.clear()
    file = written(tmp_path)
    wrong = (
        '<section><script>1</script><img src="https://example.invalid/a.png"></section><p style="width: 2000px">x</p>'
    )
    file.write_text(file.read_text().replace("<footer>", f"{wrong}<footer>"))
    browser.open(file, width=390)
    assert len(browser.told) == 2, "a script and an image, both against the page's policy"
    assert browser.value("document.documentElement.scrollWidth") > 2_000
    assert len(browser.value(_STICKING_OUT)) == 1


def test_numbers_show_where_one_points(browser, tmp_path):
    browser.open(written(tmp_path), width=1280)
    strip = "document.querySelectorAll('#chart-stages .strip')[7]"
    visible = f"getComputedStyle({strip}.querySelector('text')).visibility"
    browser.value(f"{strip}.scrollIntoView({{block: 'center'}})")
    assert browser.value(visible) == "hidden"
    browser.point(
        *browser.value(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({strip}.firstChild.getBoundingClientRect())")
    )
    assert browser.value(visible) == "visible"
    assert browser.value(f"{strip}.textContent").startswith("cycle 8, 08:40:37: settle 0.3 s")


@pytest.mark.slow
def test_texts_of_a_chart_do_not_overlap(browser, tmp_path):
    """Labels of axes, with hundreds of cycles as with few."""
    overlaps = """
    [...document.querySelectorAll('.chart')].flatMap(chart => {
      const boxes = [...chart.querySelectorAll('text')].filter(one => !one.closest('.strip')).map(one => one.getBoundingClientRect());
      return boxes.flatMap((a, n) => boxes.slice(n + 1).filter(b =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3
      ).map(b => [chart.getAttribute('aria-label'), a.x, a.y, b.x, b.y]));
    })
    """
    for cycles in (1, 24, 300):
        browser.open(written(tmp_path, cycles=cycles), width=390)
        assert browser.value(overlaps) == [], cycles
    for name in ("Throughput", "Lateness"):
        label = f"document.querySelector('.chart[aria-label^={name}]')"
        assert browser.value(f"{label}.querySelectorAll('text').length") > 5
