"""Whether a case came out as it should, and if not, a text that shows where."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from tests.conformance.cases import Case, Row, Rules
from tests.conformance.executors import Outcome

FULL = "BUFFER_FULL"  # what our error says where Kafka Streams' says that a buffer exceeded its capacity
BEFORE, AFTER = 3, 9  # rows shown around the first difference


def difference(case: Case, outcome: Outcome | None, rules: Rules) -> str | None:
    """Why the case has failed; None if it has passed."""
    if case.fault is not None:
        return f"cannot be run: {case.fault}"
    if outcome is None:
        return "the executor gave no answer"
    if outcome.error is not None:
        return None if case.fails and FULL in outcome.error else outcome.error
    if case.fails:
        return f"it must stop with {FULL}, and gave {len(outcome.rows)} rows"
    faults = []
    wanted = [_cells(row, old=case.compares_old) for row in case.expected_under(rules)]
    got = [_cells(row, old=case.compares_old) for row in outcome.rows]
    if wanted != got:
        faults.append(_side_by_side(wanted, got, old=case.compares_old))
    if rules == "strict" and case.late_strict is not None and outcome.late != case.late_strict:
        faults.append(f"late records: expected {list(case.late_strict)}, got {list(outcome.late)}")
    return "\n".join(faults) or None


def _cells(row: Row, *, old: bool) -> tuple[str, ...]:
    """A row as it is compared and shown: JSON, so that 1 and "1" differ, and null and "null"."""
    values: list[Any] = [row.after_input, row.key, row.value, row.ts]
    if old:
        values.append(row.old_value)
    return tuple(json.dumps(value, ensure_ascii=False, sort_keys=True) for value in values)


def _side_by_side(wanted: Sequence[tuple[str, ...]], got: Sequence[tuple[str, ...]], *, old: bool) -> str:
    """Both lists in aligned columns; `>` marks the first row that differs, `!` every further one."""
    length = max(len(wanted), len(got))
    first = next(
        number for number in range(length) if number >= min(len(wanted), len(got)) or wanted[number] != got[number]
    )
    head = ("after", "key", "value", "ts", *(("old",) if old else ()))
    shown = range(max(0, first - BEFORE), min(length, first + AFTER))
    empty = ("",) * len(head)
    left = [head, *(wanted[number] if number < len(wanted) else empty for number in shown)]
    right = [head, *(got[number] if number < len(got) else empty for number in shown)]
    marks = [
        "  ",
        *(
            "> " if number == first else "! " if left_ != right_ else "  "
            for number, left_, right_ in zip(shown, left[1:], right[1:], strict=True)
        ),
    ]
    lines = [f"{mark}{a} | {b}".rstrip() for mark, a, b in zip(marks, _aligned(left), _aligned(right), strict=True)]
    title = f"expected {len(wanted)} rows | got {len(got)} rows, first difference in row {first + 1}"
    before, after = shown.start, length - shown.stop
    return "\n".join(
        [
            title,
            *lines[:1],
            *([f"  ... {before} rows that agree"] if before else []),
            *lines[1:],
            *([f"  ... {after} more"] if after else []),
        ]
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]


def _width(text: str) -> int:
    """Columns of a terminal: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
