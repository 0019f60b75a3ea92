"""What was measured, to look at: tables, ratios, a plot, and the part of a page that holds them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.table import Table

OURS: Final = "lakestreams"


@dataclass(frozen=True)
class Run:
    """What one run took.

    Attributes:
        seconds: wall time until the last row was committed; of Kafka Streams and Flink without the start of their JVMs.
        cpu: CPU seconds, the broker's not among them.
        peak: most memory that its processes held at once, bytes.
        files, bytes: the data files that it left behind, of tables or alone.
        stages: seconds by stage, where they are told.
        commits: of all Delta tables.
    """

    seconds: float
    cpu: float
    peak: int
    files: int = 0
    bytes: int = 0
    commits: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)


Runs = dict[str, tuple[int, list[Run]]]
"""Of each contender how many records it got, and its runs: the first one cold."""

BEGIN, END = "<!-- side by side: begin -->", "<!-- side by side: end -->"
_MB: Final = 1 << 20
HEADINGS: Final = (
    "contender", "records", "cold, s", "warm, s", "spread", "records/s", "CPU s per million", "peak memory, MiB",
    "files", "MiB", "commits",
)  # fmt: skip


def warm(runs: list[Run]) -> list[Run]:
    """The runs that count: all but the first, if there are others."""
    return runs[1:] or runs


def rate(records: int, runs: list[Run]) -> float:
    """Records/s of the median run."""
    return records / statistics.median(one.seconds for one in warm(runs))


def lines(found: Runs) -> list[tuple[str, ...]]:
    """A line a contender."""
    told: list[tuple[str, ...]] = []
    for name, (records, runs) in found.items():
        seconds = [one.seconds for one in warm(runs)]
        cpu = statistics.median(one.cpu for one in warm(runs)) / records * 1e6
        last = runs[-1]
        told.append(
            (
                name, f"{records:,}", f"{runs[0].seconds:.1f}", f"{statistics.median(seconds):.1f}",
                f"{min(seconds):.1f}-{max(seconds):.1f}", f"{rate(records, runs):,.0f}", f"{cpu:.1f}",
                f"{max(one.peak for one in runs) / _MB:,.0f}", str(last.files or ""),
                f"{last.bytes / _MB:,.0f}" if last.bytes else "", str(last.commits or ""),
            )
        )  # fmt: skip
    return told


def table(title: str, found: Runs) -> Table:
    """For a terminal."""
    shown = Table(title=title)
    for heading in HEADINGS:
        shown.add_column(heading, justify="left" if heading == HEADINGS[0] else "right")
    for line in lines(found):
        shown.add_row(*line)
    return shown


def ratios(found: Runs, ours: str = OURS) -> str:
    """How many times the rate of each contender ours is, with the least and the most that single runs give."""
    if ours not in found:
        return ""
    records, runs = found[ours]
    own = rate(records, runs)
    told = []
    for name, (others, theirs) in found.items():
        if name == ours:
            continue
        each = [
            (records / one.seconds) / (others / other.seconds)
            for one, other in zip(warm(runs), warm(theirs), strict=True)
        ]
        told.append(f"{name} {own / rate(others, theirs):.2f} ({min(each):.2f}-{max(each):.2f})")
    return "times the rate of: " + ", ".join(told)


def replace_between(page: Path, begin: str, end: str, lines_: list[str]) -> None:
    """Puts lines in the place of what stands between a page's marks.

    Raises:
        ValueError: the page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        msg = f"{page} has no marks {begin} and {end}"
        raise ValueError(msg)
    before, rest = text.split(begin, 1)
    page.write_text(before + "\n".join([begin, *lines_]) + end + rest.split(end, 1)[1], encoding="utf-8")


def write(page: Path, found: Mapping[str, Runs], machine: str) -> None:
    """Puts the results between the page's marks, and the plot beside it into `images`.

    Raises:
        ValueError: the page has no marks.
    """
    parts = ["", f"{machine}.", "", "![records/s of each contender](images/benchmarks.png)", ""]
    for work, runs in found.items():
        parts += [f"### {work}", "", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
        parts += ["| " + " | ".join(line) + " |" for line in lines(runs)]
        parts += ["", ratios(runs).capitalize() + ".", ""]
    replace_between(page, BEGIN, END, parts)
    draw(page.parent / "images" / "benchmarks.png", found)


def draw(file: Path, found: Mapping[str, Runs]) -> None:
    """Bars of records/s, with the spread of single runs."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and few commands draw

    figure = Figure(figsize=(9, 1.2 + 0.42 * sum(map(len, found.values()))), layout="constrained")
    heights = [len(runs) for runs in found.values()]
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for place, (work, runs) in zip(axes, found.items(), strict=True):
        names = list(runs)
        rates = [rate(*runs[name]) for name in names]
        spread = [[runs[name][0] / one.seconds for one in warm(runs[name][1])] for name in names]
        errors = [
            [max(0.0, middle - min(each)) for middle, each in zip(rates, spread, strict=True)],
            [max(0.0, max(each) - middle) for middle, each in zip(rates, spread, strict=True)],
        ]
        colours = ["#2a6f97" if name == OURS else "#a9b4c2" for name in names]
        place.barh(names, rates, xerr=errors, color=colours, ecolor="#333333", capsize=3)
        place.invert_yaxis()
        place.set_title(work, loc="left", fontsize=10)
        place.set_xlabel("records/s, warm")
        place.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, dpi=110)
