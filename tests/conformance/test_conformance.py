"""The specification reproduces every case, and the runner does not let a failure pass."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.__main__ import DEFAULT, main
from tests.conformance.cases import Case, Row, Rules, load, read_case
from tests.conformance.compare import difference
from tests.conformance.executors import EXECUTORS, Outcome, load_executor
from tests.conformance.runner import run

ROOT = Path(__file__).parents[2]
NOT_CLAIMED = {"x-ss-left-throttle"}  # it is about wall-clock time
DERIVED = 12  # extra cases of aggregations, toTable and suppress
ALL = 175 + 600 + DERIVED
Capture = pytest.CaptureFixture[str]
Change = Callable[[dict[str, Any]], Any]


def recorded(id_: str) -> dict[str, Any]:
    """A copy of a recorded case, for tampering."""
    document = json.loads(DEFAULT[0].read_text(encoding="utf-8"))
    found: dict[str, Any] = next(case for case in document["cases"] if case["id"] == id_)
    return found


def file_of(folder: Path, *cases: Any, name: str = "cases.json") -> str:
    file = folder / name
    file.write_text(json.dumps({"cases": cases}), encoding="utf-8")
    return str(file)


def test_all_175_recorded_600_random_and_12_extra_cases_under_kafka_rules() -> None:
    cases, faults = load(DEFAULT)
    assert not faults
    report = run(cases, EXECUTORS["reference"](0), "kafka")
    assert report.failed == {}
    assert set(report.not_claimed) == NOT_CLAIMED
    assert len(report.passed) == ALL
    assert report.outside == ()


def test_all_cases_that_say_what_strict_rules_give() -> None:
    cases, _ = load(DEFAULT)
    report = run(cases, EXECUTORS["reference"](0), "strict")
    assert report.failed == {}
    assert len(report.passed) == 50 + 157
    assert len(report.passed) + len(report.outside) == ALL


def test_an_executor_that_is_not_there_passes_nothing() -> None:
    cases, _ = load(DEFAULT)
    report = run(cases, load_executor("nowhere", 0), "kafka")
    assert report.passed == ()
    assert len(report.failed) == ALL
    assert set(report.failed.values()) == {"executor 'nowhere' is not there yet"}
    assert set(EXECUTORS) == {"reference", "batch", "cuts", "stream"}


@pytest.mark.parametrize(
    ("id_", "change", "reason"),
    [
        ("ss-left-grace", lambda case: case["expected"][1].update(value="other"), "first difference in row 2"),
        ("ss-left-grace", lambda case: case["expected"][1].update(ts=7), "first difference in row 2"),
        ("ss-left-grace", lambda case: case["expected"][1].update(after_input=1), "first difference in row 2"),
        ("ss-left-grace", lambda case: case["expected"][0].update(key="0"), "first difference in row 1"),
        ("ss-left-grace", lambda case: case["expected"].pop(), "expected 1 rows | got 2 rows"),
        ("ss-left-grace", lambda case: case["expected"].reverse(), "first difference in row 1"),
        ("tt-left-old-values", lambda case: case["expected"][2].update(old_value="no"), "first difference in row 3"),
        ("ss-left-grace", lambda case: case.update(join="stream-lake"), "unknown join 'stream-lake'"),
        ("ss-left-grace", lambda case: case.update(how="sideways"), "has no how 'sideways'"),
        ("ss-left-grace", lambda case: case["params"].update(magic=1), "unknown parameter 'magic'"),
        ("ss-left-grace", lambda case: case["params"].update(before_ms="1"), "'before_ms' of a stream-stream"),
        ("ss-left-grace", lambda case: case["params"].update(before_ms=-101), "must not be negative"),
        ("ss-left-grace", lambda case: case["params"].pop("grace_ms"), "needs the parameter 'grace_ms'"),
        ("ss-left-grace", lambda case: case["params"].update(window_store="disk"), "cannot be 'disk'"),
        ("ss-left-grace", lambda case: case["params"].update(emit_interval_ms=1000), "cannot be 1000"),
        ("ss-left-grace", lambda case: case.update(joiner="{left}-{up}"), "unknown field 'up'"),
        ("ss-left-grace", lambda case: case.pop("expected"), "'expected' is no list"),
        ("tt-outer-suppress-right", lambda case: case["params"].update(suppress_buffer="small"), "cannot be 'small'"),
        ("tt-outer-suppress-right", lambda case: case["expected"][6].update(after_input=7), "difference in row 7"),
        ("ss-left-grace", lambda case: case["inputs"].insert(0, {"advance_wall_ms": 5}), "'inputs', entry 1"),
        ("ss-left-grace", lambda case: case["inputs"][0].update(topic="up"), "unknown topic 'up'"),
        ("ss-left-grace", lambda case: case["inputs"][0].update(ts=-1), "negative time"),
        ("ss-left-grace", lambda case: case["inputs"][0].update(offset_order=2), "same 'offset_order'"),
        ("ss-left-grace", lambda case: case["inputs"][0].update(key=["a", "list"]), "FAILED"),
        ("fk-inner-left-insert-delete", lambda case: case["params"].update(fk_extractor="pipe9"), "cannot be 'pipe9'"),
        ("tt-int-multi-inner-left", lambda case: case["params"].update(chain=[{"how": "up"}]), "cannot be"),
        ("tt-int-multi-inner-left", lambda case: case.update(how="inner"), "the last join of the chain"),
        ("st-inner-grace-late", lambda case: case["params"].update(versioned=False), "must be versioned"),
        ("st-inner-grace-late", lambda case: case["params"].update(history_retention_ms=1), "must not exceed"),
        (
            "st-inner-grace-late",
            lambda case: case["params"].pop("history_retention_ms"),
            "needs 'history_retention_ms'",
        ),
    ],
)
def test_what_is_wrong_with_a_case_fails_it(
    id_: str, change: Change, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    case = recorded(id_)
    assert main([file_of(tmp_path, case)]) == 0
    change(case)
    capsys.readouterr()
    assert main([file_of(tmp_path, case, recorded("ss-inner-basic"))]) == 1
    printed = capsys.readouterr().out
    assert f"FAILED {id_}" in printed
    assert reason in printed
    assert printed.endswith("\n1 passed, 1 failed\n")


def test_a_case_that_must_stop_fails_if_it_goes_on_or_stops_for_another_reason() -> None:
    document = json.loads(DEFAULT[0].read_text(encoding="utf-8"))
    raw = next(case for case in document["extra_cases"] if case["id"] == "x-suppress-shutdown")
    case = read_case(raw, "here", "extra_cases")
    assert difference(case, Outcome(error="RuntimeError: BUFFER_FULL: 2 keys wait"), "kafka") is None
    assert "must stop" in str(difference(case, Outcome(), "kafka"))
    assert difference(case, Outcome(error="disk full"), "kafka") == "disk full"
    assert main([str(DEFAULT[0]), "--only", "x-suppress-shutdown"]) == 0


def test_strict_rules_compare_the_late_records_too(tmp_path: Path, capsys: Capture) -> None:
    case = recorded("x-ss-inner-late-other-side-rocksdb")
    assert case["late_strict"]
    assert main([file_of(tmp_path, case), "--rules", "strict"]) == 0
    case["late_strict"] = []
    assert main([file_of(tmp_path, case), "--rules", "strict"]) == 1
    assert "late records: expected [], got [" in capsys.readouterr().out


def test_a_difference_stands_side_by_side() -> None:
    raw = recorded("ss-left-grace")
    case = read_case(raw, "here")
    got = [Row(**row) for row in raw["expected"]]
    got[1] = Row(got[1].key, "中", got[1].ts, got[1].after_input)
    text = difference(case, Outcome(tuple(got)), "kafka")
    assert text is not None
    title, head, *lines = text.splitlines()
    assert title == "expected 2 rows | got 2 rows, first difference in row 2"
    assert head.split() == ["after", "key", "value", "ts", "|", "after", "key", "value", "ts"]
    assert [line[:1] for line in lines] == [" ", ">"]
    assert len({line.index("|") for line in (head, *lines)}) == 1


def test_a_missing_answer_and_a_broken_executor_are_failures() -> None:
    class Silent:
        def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
            del cases, rules
            return {}

    class Broken:
        def run(self, cases: Sequence[Case], rules: Rules) -> Mapping[str, Outcome]:
            del cases, rules
            raise RuntimeError("out of memory")

    cases = [read_case(recorded("ss-left-grace"), "here")]
    assert run(cases, Silent(), "kafka").failed == {"ss-left-grace": "the executor gave no answer"}
    assert "the executor broke: RuntimeError: out of memory" in run(cases, Broken(), "kafka").failed["ss-left-grace"]


def test_json_lines_one_line_and_lists(tmp_path: Path, capsys: Capture) -> None:
    lines = [json.dumps(recorded(id_), ensure_ascii=False) for id_ in ("ss-inner-basic", "ss-left-grace")]
    wrong = json.dumps({"id": "empty"})
    for name, text, last in (
        ("two.jsonl", "\n".join(lines) + "\n", "2 passed, 0 failed"),
        ("one.jsonl", lines[0] + "\n", "1 passed, 0 failed"),
        ("list.json", f"[{lines[0]}, {lines[1]}]", "2 passed, 0 failed"),
        ("wrong.jsonl", "\n".join([*lines, "", wrong]), "2 passed, 1 failed"),
        ("number.jsonl", "\n".join([*lines, "5"]), "2 passed, 1 failed"),
    ):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        assert main([str(file)]) == int("0 failed" not in last)
        assert capsys.readouterr().out.splitlines()[-1] == last


def test_a_case_that_comes_twice_counts_twice(tmp_path: Path, capsys: Capture) -> None:
    file = file_of(tmp_path, recorded("ss-inner-basic"))
    wrong = recorded("ss-inner-basic")
    wrong["expected"].pop()
    assert main([file, file_of(tmp_path, wrong, name="again.json")]) == 1
    printed = capsys.readouterr().out
    assert "FAILED ss-inner-basic (2)" in printed
    assert printed.endswith("1 passed, 1 failed\n")


def test_files_with_extra_cases_alone(tmp_path: Path, capsys: Capture) -> None:
    extra = json.loads(DEFAULT[0].read_text(encoding="utf-8"))["extra_cases"]
    file = tmp_path / "extra.json"
    file.write_text(json.dumps({"extra_cases": extra}), encoding="utf-8")
    assert main([str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert {line.split(": ")[1] for line in printed if line.startswith("not claimed: ")} == NOT_CLAIMED
    assert printed[-1] == f"{DERIVED} passed, 0 failed"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("", "holds no cases"),
        ("{", "neither JSON"),
        ("5", "holds int"),
        ('{"cases": []}', "holds no cases"),
        ('{"cases": {}}', "'cases' is no list"),
        (b"\xff\xfe", "can't decode"),
    ],
)
def test_a_file_that_cannot_be_read(text: str | bytes | None, reason: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "cases.json"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main([str(file), file_of(tmp_path, recorded("ss-inner-basic"), name="good.json")]) == 1
    printed = capsys.readouterr().out
    assert re.search(rf"cannot be read: .*cases\.json: .*{reason}", printed)
    assert printed.endswith("1 passed, 0 failed\n")


def test_only_one_case_and_only_one_that_is_there(capsys: Capture) -> None:
    assert main(["--only", "ss-inner-basic"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed\n")
    assert main(["--only", "ss-inner-basik"]) == 1
    assert "no case has the id 'ss-inner-basik'" in capsys.readouterr().out


def test_the_command_itself(tmp_path: Path) -> None:
    case = recorded("ss-left-grace")
    case["expected"][0]["value"] = "中"
    command = [sys.executable, "-m", "tests.conformance", file_of(tmp_path, case)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == b"0 passed, 1 failed"
    assert done.stderr == b""
