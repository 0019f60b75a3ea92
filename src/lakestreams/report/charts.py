"""The charts of a report: drawn by matplotlib, and made fit for a page.

Every chart is an SVG within the page: no image, no script. Its colours are the page's variables, so that it is light or
dark as the reader's screen is; its words are the page's font. Names, which come from data, stand in legends that the page
writes: matplotlib draws numbers and times only, since it would read a `$` in a name as mathematics. A strip over each
cycle says its numbers when the pointer is on it.
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakestreams.report import wording
from lakestreams.report.model import LATENESS, Cycle, Report
from lakestreams.topology.labels import printable, shortened, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SERIES: Final = 6
"""How many series a chart has colours for."""

_WIDTH, _HEIGHT = 400.0, 222.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 392.0, 34.0, 186.0  # where the plot itself lies
_LARGE_MARKERS, _BARS = 10, 80  # up to how many cycles dots are large; from how many on bars touch
_WIDEST = 36.0  # of a bar, so that one of a few cycles is no block
_DOTS = 60  # up to how many cycles a line shows its points
_TICKS = 5
_SAID_Y = (11.0, 25.0)  # the lines of what stands above the plot


# Colours that nothing else has; each becomes a variable of the page.
_INK: Final = {"muted": "#0a0b01", "rule": "#0a0b02", "paper": "#0a0b03"}
_SERIES: Final = tuple(f"#0c0d0{number}" for number in range(1, MOST_SERIES + 1))
_VARIABLES: Final = {**{colour: f"var(--{name})" for name, colour in _INK.items()},
                     **{colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES, 1)}}  # fmt: skip


@dataclass(frozen=True)
class Series:
    """A line, or a layer of bars: a name and a number at each place of the axis, None where there is none."""

    name: str
    numbers: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """A chart in the page.

    Attributes:
        key: its name in the page's markup.
        title, unit: its heading, and what its numbers are.
        legend: the names of its series, the first in the first colour.
        svg: the drawing, or None if there is no number to draw.
        note: what else has to be said.
    """

    key: str
    title: str
    unit: str
    legend: tuple[str, ...] = ()
    svg: str | None = None
    note: str = ""


def charts(report: Report) -> tuple[Chart, ...]:
    """Every chart, in the order of the page; one that has no numbers says so."""
    drawn = (_throughput, _lag, _match_rate, _stages, _lateness, _quarantine)
    return tuple(draw(report) for draw in drawn)


# --- each chart ----------------------------------------------------------------------------------------------------


def _throughput(report: Report) -> Chart:
    series = [Series("records per second", [one.records_per_second for one in report.cycles])]
    chart = Chart("throughput", "Throughput", "records per second")
    return _over_cycles(chart, report, series, _lines, lambda number: f"{wording.short(number)} records/s")


def _lag(report: Report) -> Chart:
    lags = [Series(name, [one.lag.get(name) for one in report.cycles]) for name in report.sources]
    series, note = _shown_series(lags)
    legend = tuple(one.name for one in series)
    chart = Chart("lag", "Lag", "records on the broker, not yet taken", legend, note=note)
    return _over_cycles(chart, report, series, _lines, wording.count)


def _match_rate(report: Report) -> Chart:
    rates = [
        Series(join, [flow.match_rate if (flow := one.flows.get(join)) else None for one in report.cycles])
        for join in report.joins
    ]
    shown = rates[:MOST_SERIES]  # rates cannot be added up
    note = f"{len(rates) - len(shown)} more in the table of nodes" if len(rates) > len(shown) else ""
    chart = Chart("match", "Match rate", "share of rows with a partner", tuple(one.name for one in shown), note=note)
    return _over_cycles(chart, report, shown, _rates, wording.share)


def _stages(report: Report) -> Chart:
    layers = [Series(stage, [one.seconds.get(stage) for one in report.cycles]) for stage in report.stages]
    series, note = _shown_series(layers)
    chart = Chart("stages", "Time by stage", "seconds a cycle", tuple(one.name for one in series), note=note)
    return _over_cycles(chart, report, series, _layers, wording.seconds)


def _quarantine(report: Report) -> Chart:
    layers = [Series(code, [one.quarantined.get(code) for one in report.cycles]) for code in report.codes]
    series, note = _shown_series(layers)
    chart = Chart("quarantine", "Quarantine", "records by reason", tuple(one.name for one in series), note=note)
    return _over_cycles(chart, report, series, _layers, wording.count)


def _lateness(report: Report) -> Chart:
    counted = [Series(name, report.lateness(name)) for name in report.sources]
    series, note = _shown_series([one for one in counted if one.numbers])
    chart = Chart(
        "lateness", "Lateness", "records, by how far behind stream time", tuple(one.name for one in series), note=note
    )
    if not any(any(one.numbers) for one in series):
        return chart
    figure, axes = _figure(len(LATENESS))
    _groups(axes, series)
    axes.set_xticks(range(len(LATENESS)), [name.removeprefix("≤ ") for name in ("0", *LATENESS[1:])])
    axes.set_yscale("symlog", linthresh=1)
    _scale(axes, max(_numbers(series)) * 1.5, [0, *(10**power for power in range(10))])
    says = [_said(late, series, place, wording.count) for place, late in enumerate(LATENESS)]
    return _finished(chart, figure, says, len(LATENESS))


def _shown_series(series: Sequence[Series]) -> tuple[list[Series], str]:
    """As many series as there are colours, and what the last one stands for: all others added up."""
    if len(series) <= MOST_SERIES:
        return list(series), ""
    kept, rest = list(series[: MOST_SERIES - 1]), series[MOST_SERIES - 1 :]
    others = [_sum(numbers) for numbers in zip(*(one.numbers for one in rest), strict=True)]
    return [*kept, Series(f"{len(rest)} others", others)], f"others: {', '.join(one.name for one in rest)}"


def _sum(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


# --- marks ---------------------------------------------------------------------------------------------------------


def _lines(axes: Axes, series: Sequence[Series]) -> None:
    dots = max(len(one.numbers) for one in series) <= _DOTS
    for colour, one in zip(_SERIES, series, strict=False):
        numbers = [math.nan if number is None else number for number in one.numbers]
        lonely = not dots and _has_lonely(one.numbers)
        axes.plot(
            range(len(numbers)),
            numbers,
            color=colour,
            linewidth=1.75,
            marker="o" if dots or lonely else None,
            markersize=(5.0 if len(numbers) <= _LARGE_MARKERS else 3.5) if dots else 2.0,
            markeredgewidth=0,
            solid_joinstyle="round",
            clip_on=False,
        )
    if len(series) == 1 and None not in series[0].numbers and len(series[0].numbers) > 1:
        numbers = [number or 0.0 for number in series[0].numbers]
        axes.fill_between(range(len(numbers)), numbers, color=_SERIES[0], alpha=0.12, linewidth=0)
    _scale(axes, max(max(_numbers(series)) * 1.08, 1.0), whole=_are_whole(series))


def _has_lonely(numbers: Sequence[float | None]) -> bool:
    """Whether a point has no neighbour, so that a line alone would not show it."""
    padded = [None, *numbers, None]
    return any(
        here is not None and before is None and after is None
        for before, here, after in zip(padded, padded[1:], padded[2:], strict=False)
    )


def _rates(axes: Axes, series: Sequence[Series]) -> None:
    _lines(axes, series)
    _scale(axes, 1.0, [0, 0.25, 0.5, 0.75, 1.0], lambda number: f"{number:.0%}")


def _layers(axes: Axes, series: Sequence[Series]) -> None:
    count = len(series[0].numbers)
    base = [0.0] * count
    width = min(0.72, _WIDEST * count / (_RIGHT - _LEFT))
    for colour, one in zip(_SERIES, series, strict=False):
        heights = [number or 0.0 for number in one.numbers]
        tops = [below + height for below, height in zip(base, heights, strict=True)]
        if count > _BARS:
            edges = [place - 0.5 for place in range(count + 1)]
            axes.stairs(tops, edges, baseline=base, fill=True, color=colour, linewidth=0)
        else:
            axes.bar(range(count), heights, width, base, color=colour, edgecolor=_INK["paper"], linewidth=0.5)
        base = tops
    _scale(axes, max(base) * 1.08 or 1.0, whole=_are_whole(series))


def _groups(axes: Axes, series: Sequence[Series]) -> None:
    width = 0.8 / len(series)
    for number, (colour, one) in enumerate(zip(_SERIES, series, strict=False)):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(one.numbers))]
        axes.bar(places, [height or 0 for height in one.numbers], width * 0.92, color=colour, linewidth=0)


def _numbers(series: Sequence[Series]) -> list[float]:
    return [number for one in series for number in one.numbers if number is not None] or [0]


def _are_whole(series: Sequence[Series]) -> bool:
    return all(isinstance(number, int) for number in _numbers(series))


# --- axes ----------------------------------------------------------------------------------------------------------


def _over_cycles(
    chart: Chart,
    report: Report,
    series: Sequence[Series],
    draw: Callable[[Axes, Sequence[Series]], None],
    word: Callable[[float], str],
) -> Chart:
    """The chart with its drawing, the cycles from left to right; without one if there is no number."""
    if not any(number is not None for one in series for number in one.numbers):
        return chart
    places = len(report.cycles)
    figure, axes = _figure(places)
    draw(axes, series)
    _cycle_axis(axes, report.cycles)
    says = [_said(_when(cycle), series, place, word) for place, cycle in enumerate(report.cycles)]
    return _finished(chart, figure, says, places)


def _when(cycle: Cycle) -> str:
    closed = wording.instant(cycle.closed_at_ms, ", %H:%M:%S") if cycle.closed_at_ms is not None else ""
    return f"cycle {cycle.number}{closed}"


def _said(place: str, series: Sequence[Series], at: int, word: Callable[[float], str]) -> list[str]:
    """What stands above the plot while the pointer is on a place, in parts that are not broken."""
    if len(series) == 1:
        number = series[0].numbers[at]
        return [f"{place}: {wording.DASH if number is None else word(number)}"]
    known = [(one.name, number) for one in series if (number := one.numbers[at]) is not None]
    return [f"{place}:", *(f"{name} {word(number)}" for name, number in known)]


def _figure(places: int) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional part

    figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72), dpi=72)
    figure.patch.set_visible(False)
    inside = (_LEFT / _WIDTH, 1 - _BOTTOM / _HEIGHT, (_RIGHT - _LEFT) / _WIDTH, (_BOTTOM - _TOP) / _HEIGHT)
    axes = figure.add_axes(inside)
    axes.patch.set_visible(False)
    axes.set_xlim(-0.5, places - 0.5)
    axes.set_autoscale_on(False)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_INK["rule"])
    axes.grid(axis="y", color=_INK["rule"], linewidth=0.75)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=10, labelcolor=_INK["muted"], pad=5)
    return figure, axes


def _scale(
    axes: Axes,
    highest: float,
    ticks: Sequence[float] | None = None,
    word: Callable[[float], str] = wording.short,
    *,
    whole: bool = False,
) -> None:
    """The upright axis: from 0, with few round numbers, whole ones if parts of one make no sense."""
    if ticks is None:
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an optional part

        ticks = [
            float(tick) for tick in MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(0.0, highest)
        ]
    axes.set_ylim(0, highest)
    shown = [tick for tick in ticks if 0 <= tick <= highest * 1.001]
    axes.set_yticks(shown, [word(tick) for tick in shown])
    axes.minorticks_off()


def _cycle_axis(axes: Axes, cycles: Sequence[Cycle]) -> None:
    """A few cycles with their numbers, and when they were closed."""
    step = max(1, math.ceil(len(cycles) / _TICKS))
    chosen = cycles[::step]
    times = wording.axis_times([one.closed_at_ms for one in chosen])
    labels = [f"{one.number}\n{time}" for one, time in zip(chosen, times, strict=True)]
    axes.set_xticks(range(0, len(cycles), step), labels)


# --- the drawing in a page -----------------------------------------------------------------------------------------

_REFERENCE = re.compile(r"(url\(#|^#)")
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _finished(chart: Chart, figure: Figure, says: Sequence[Sequence[str]], places: int) -> Chart:
    """The chart with its figure as an element of the page, and with a strip over each of its places."""
    from matplotlib import rc_context  # noqa: PLC0415 - an optional part

    written = io.StringIO()
    # Text stays text; names within the drawing are made of what is drawn: equal input gives an equal page.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": chart.key, "path.simplify": False}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ET.fromstring(written.getvalue())  # noqa: S314 - our own drawing, not somebody's file
    _cleaned(root, f"{chart.key}-")
    root.attrib.pop("width"), root.attrib.pop("height")
    root.set("class", "chart")
    root.set("role", "img")
    root.set("aria-label", f"{chart.title}, {chart.unit}")
    strip = (_RIGHT - _LEFT) / places
    for place, parts in enumerate(says):
        group = ET.SubElement(root, "g", {"class": "strip"})
        around = {"x": f"{_LEFT + place * strip:.2f}", "y": f"{_TOP:g}", "width": f"{strip:.2f}"}
        ET.SubElement(group, "rect", {**around, "height": f"{_BOTTOM - _TOP:g}"})
        for y, line in zip(_SAID_Y, _lines_of(parts), strict=False):
            ET.SubElement(group, "text", {"x": f"{_RIGHT:g}", "y": f"{y:g}", "text-anchor": "end"}).text = line
    svg = ET.tostring(root, encoding="unicode")
    svg = re.sub("|".join(_VARIABLES), lambda match: _VARIABLES[match[0]], svg)
    return Chart(chart.key, chart.title, chart.unit, chart.legend, svg, chart.note)


def _lines_of(parts: Iterable[str]) -> list[str]:
    """The parts in as many lines as there is room for; what is left over is in the tables."""
    lines: list[str] = []
    for part in parts:
        plain = shortened(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", printable(part)), _RIGHT - 6, "detail")
        longer = f"{lines[-1]}{'' if len(lines) == 1 and lines[0].endswith(':') else ' ·'} {plain}" if lines else plain
        if lines and width_of(longer, "detail") <= _RIGHT - 6:
            lines[-1] = longer
        elif len(lines) < len(_SAID_Y):
            lines.append(plain)
        else:
            lines[-1] += " \N{HORIZONTAL ELLIPSIS}"
            break
    return lines


def _cleaned(root: ET.Element, prefix: str) -> None:
    """Takes out what is for files of their own (names of namespaces, styles for all), and makes ids unique in a page."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            plain = name.rpartition("}")[2]
            kept = f"{prefix}{value}" if plain == "id" else _REFERENCE.sub(rf"\g<1>{prefix}", value)
            element.set(plain, kept)
    root.attrib.pop("version", None)
