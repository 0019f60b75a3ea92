"""The report as one HTML page that needs nothing else: no request, no script; light and dark, wide and narrow.

Names, messages and values come from data. Whatever is written passes Jinja's autoescape, the drawings' ElementTree, or
both; and the page's own policy (CSP) forbids scripts and requests, should something slip through.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from lakestreams.errors import LocalPartsMissing
from lakestreams.report import wording
from lakestreams.report.charts import MOST_SERIES, charts
from lakestreams.report.health import badges
from lakestreams.report.model import Report
from lakestreams.topology import svg
from lakestreams.visible import visible_lines

_TEMPLATE: Final = "page.html.j2"
_SERIES: Final = ("source-line", "join-line", "sink-line", "aggregate-line", "buffer-line", "step-line")
_LONGEST: Final = 300  # signs of a message or value
_BAD: Final = {"light": "#b3261e", "dark": "#f2887f"}


def require() -> None:
    """Looks for the packages that a report needs, before anything is started.

    Raises:
        LocalPartsMissing: if matplotlib or Jinja2 is not installed.
    """
    for package in ("matplotlib", "jinja2"):
        try:
            __import__(package)
        except ModuleNotFoundError as error:
            msg = f"a report is drawn by {package}, which is not installed"
            raise LocalPartsMissing(msg, hint="pip install 'lakestreams[report]'") from error


def render(report: Report, drawing: str | None = None, drawn: Collection[str] = ()) -> str:
    """The page.

    Args:
        report: what it tells.
        drawing: the topology as SVG (`Topology.svg(counts=report.rows_out)`), or None for a page without one.
        drawn: the names of the drawing's nodes; others in the log are marked as such.

    Raises:
        LocalPartsMissing: if matplotlib or Jinja2 is not installed.
    """
    require()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - an optional part
    from markupsafe import Markup  # noqa: PLC0415 - see above

    environment = Environment(
        autoescape=True,
        finalize=lambda one: visible_lines(one) if type(one) is str else one,  # a Markup is the page's own
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (wording.count, wording.share, wording.seconds, wording.instant, wording.span, wording.short)
    environment.filters |= {word.__name__: word for word in words} | {"shortened": shortened}
    environment.filters["inline"] = lambda text: Markup(_inline(text))  # noqa: S704 - made by ElementTree, which escapes
    return environment.get_template(_TEMPLATE).render(
        report=report,
        badges=badges(report),
        charts=charts(report),
        drawing=drawing,
        drawn=frozenset(drawn),
        natural_width=_width_of(drawing),
        light=_colours(svg.LIGHT, _BAD["light"]),
        dark=_colours(svg.DARK, _BAD["dark"]),
    )


def shortened(text: str) -> str:
    """The beginning of a text that may be of any length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}"


def _inline(drawing: str) -> str:
    """An SVG document as an element of a page, which knows its namespace by itself."""
    return re.sub(r' xmlns="[^"]*"', "", drawing, count=1)


def _width_of(drawing: str | None) -> int:
    match = re.search(r'<svg[^>]* width="([\d.]+)"', drawing or "")
    return round(float(match[1])) if match else 0


def _colours(of_drawings: Mapping[str, str], bad: str) -> Mapping[str, str]:
    """The page's colours, which are those of the drawing: what a colour stands for, to its value."""
    named = {name: of_drawings[name] for name in ("paper", "frame", "rule", "ink", "muted")}
    series = {f"series-{number}": of_drawings[name] for number, name in enumerate(_SERIES[:MOST_SERIES], 1)}
    return {
        **named,
        **series,
        "good": of_drawings["sink-line"],
        "good-soft": of_drawings["sink"],
        "warn": of_drawings["join-line"],
        "warn-soft": of_drawings["join"],
        "bad": bad,
    }
