"""The benchmark of cycles without its cycles: what it loads, what it holds out, what it makes of rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.data import WINDOW_MS

from bench import cost as bench
from lakestreams.costs import cost
from lakestreams.costs.cost import Coefficients, Point, Work

ROOT = Path(__file__).parents[2]
TRUE = {"lookups": Coefficients(20.0, 2.0, 0.3, 1.0), "windows": Coefficients(60.0, 9.0, 0.35, 3.0)}
SIZES = (1_000, 10_000, 50_000, 200_000)


class Topics:
    """Takes what would go to a broker."""

    def __init__(self) -> None:
        self.records: dict[str, list[tuple]] = {}

    def produce(self, topic: str, rows) -> None:
        self.records.setdefault(topic, []).extend(rows)


def rounds(noise: float = 0.0) -> list[bench.Measured]:
    """Of two works, as long as the coefficients say; each second one that much longer."""
    found = []
    for kind, true in TRUE.items():
        for state in (10_000, 50_000, 200_000) if kind == "lookups" else (1, 4, 10):
            for size in (0, *SIZES):
                for turn in range(2):
                    retained = state if kind == "lookups" else state * size
                    work = Work(size, retained, 6 + turn, float(size + retained > 20_000))
                    seconds = true.seconds(work) * (1 + noise * (turn - 0.5))
                    out = size in bench.held_out(SIZES) or state in (50_000, 4)
                    found.append(
                        bench.Measured(Point(kind, work, seconds), size, state, out, size > 0, {"join": seconds})
                    )
    return found


def test_whole_sizes_are_held_out_and_never_the_ends() -> None:
    assert bench.held_out(SIZES) == {10_000}
    assert bench.held_out((1, 2, 3, 4, 5)) == {2, 4}
    assert bench.held_out((1, 2)) == set()


def test_the_model_is_fitted_on_what_is_not_held_out() -> None:
    found = rounds()
    spoilt = [
        one
        if not one.held_out
        else bench.Measured(
            Point(one.point.remembers, one.point.work, 1_000.0), one.records, one.state, True, one.counted, {}
        )
        for one in found
    ]
    for made in (bench.fitted(found), bench.fitted(spoilt)):
        assert made.keys() == TRUE.keys()
        for kind, true in TRUE.items():
            assert made[kind].per_million_new == pytest.approx(true.per_million_new, rel=1e-6)
            assert made[kind].per_commit == pytest.approx(true.per_commit, rel=1e-6)
    assert all(abs(one.error) < 1e-6 for one in bench.cells(found, TRUE))
    assert all(abs(one.error) > 0.9 for one in bench.cells(spoilt, TRUE) if one.held_out)


def test_what_is_written_is_what_check_reads(tmp_path: Path) -> None:
    found = rounds(noise=0.1)
    coefficients = bench.fitted(found)
    told = bench.cells(found, coefficients)
    known = bench.reference(found, coefficients, told)
    assert cost.from_json(known.as_json()) == known
    assert known.fitted + known.held_out == sum(one.counted for one in found)
    assert 0 <= known.median_error <= known.worst_error < bench.GOOD
    page = tmp_path / "page.md"
    page.write_text(f"before\n{bench.BEGIN}\nold\n{bench.END}\nafter\n", encoding="utf-8")
    for _ in range(2):  # the second time over its own
        bench.write(page, told, known)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith(f"{bench.END}\nafter\n")
    assert "old" not in text
    assert text.count("| lookups |") == 1 + sum(one.held_out and one.kind == "lookups" for one in told)
    assert (tmp_path / "images" / bench.PLOT).stat().st_size > 10_000
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="no marks"):
        bench.write(page, told, known)


def test_rounds_that_were_kept_are_fitted_again(tmp_path: Path) -> None:
    file = tmp_path / "rounds.json"
    bench.keep(file, rounds(0.1))
    assert bench.kept(file) == rounds(0.1)


def test_without_a_size_that_is_held_out_nothing_is_claimed() -> None:
    found = [one for one in rounds() if not one.held_out]
    coefficients = bench.fitted(found)
    with pytest.raises(ValueError, match="no size is held out"):
        bench.reference(found, coefficients, bench.cells(found, coefficients))


def test_the_page_has_the_marks() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert text.index(bench.BEGIN) < text.index(bench.END)


# --- what is loaded --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [1, 4, 10])
def test_a_window_holds_as_many_batches_and_most_orders_are_paid_in_it(state: int) -> None:
    topics = Topics()
    series = bench.Series("windows", topics)  # type: ignore[arg-type]
    series.fill(state, 1_000)
    for _ in range(2 * state):
        series.bring(1_000)
    orders, payments = topics.records["orders"], topics.records["payments"]
    assert len(orders) == len(payments) == 500 * 3 * state
    placed = {key: at for key, _, at in orders}
    assert len(placed) == len(orders)
    last = orders[-1][2]
    inside = sum(at > last - bench.SPAN_MS for *_, at in (*orders, *payments))
    assert inside == pytest.approx(1_000 * state, rel=0.02)
    paid = [at - placed[key] for key, _, at in payments if key in placed]
    assert all(abs(apart) <= WINDOW_MS for apart in paid)
    assert len(paid) > 0.75 * len(orders)
    for rows in (orders, payments):
        times = [at for *_, at in rows]
        assert times == sorted(times)


def test_tables_grow_by_what_is_missing_and_rounds_change_rows_that_are_there() -> None:
    topics = Topics()
    series = bench.Series("tables", topics)  # type: ignore[arg-type]
    assert series.fill(500, 0)
    assert not series.fill(500, 0)
    assert series.fill(2_000, 0)
    placed = topics.records["fk_orders"]
    assert len({key for key, *_ in placed}) == len(placed) == 2_000
    assert len(topics.records["customers"]) == bench.CUSTOMERS
    series.bring(1_000)
    changed = {key for key, *_ in placed[2_000:]}
    assert len(changed) == 1_000
    assert changed <= {key for key, *_ in placed[:2_000]}
    assert len(topics.records["customers"]) == bench.CUSTOMERS + 10


def test_profiles_grow_by_what_is_missing() -> None:
    topics = Topics()
    series = bench.Series("lookups", topics)  # type: ignore[arg-type]
    series.fill(100, 0)
    series.fill(300, 0)
    assert len({key for key, *_ in topics.records["profiles"]}) == len(topics.records["profiles"]) == 300
    series.bring(50)
    assert {key for key, *_ in topics.records["views"]} <= {key for key, *_ in topics.records["profiles"]}
