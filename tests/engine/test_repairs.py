"""Repairs as lines: what a line may say, and every line that cannot be used is told at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestreams.engine.replay.edits import Repair, line, parse
from lakestreams.errors import RepairUnfit

PLACE = '"topic": "views", "partition": 0, "offset": 17'


def test_what_is_not_named_stays() -> None:
    text = f"""
    {{{PLACE}, "attempt": 1, "value": "{{}}"}}

    {{"topic": "users", "partition": 2, "offset": 3, "key_base64": "/w==", "value": null, "timestamp_ms": 5}}
    """
    assert parse(text, "r.jsonl") == (
        Repair("views", 0, 17, 1, {"value": b"{}"}),
        Repair("users", 2, 3, None, {"key": b"\xff", "value": None, "timestamp_ms": 5}),
    )


@given(key=st.none() | st.binary(max_size=8), value=st.none() | st.binary(max_size=30))
def test_a_record_that_is_written_as_a_line_reads_as_itself(key: bytes | None, value: bytes | None) -> None:
    record = {"topic": "t", "partition": 1, "offset": 2, "attempt": 3, "key": key, "value": value, "code": "LATE"}
    assert parse(json.dumps(line(record)), "r") == (Repair("t", 1, 2, 3, {"key": key, "value": value}),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "is no JSON"),
        ("[1]", "is no JSON object"),
        (f'{{{PLACE}, "valeu": "x"}}', "did you mean 'value'?"),
        (f'{{{PLACE}, "zzz": 1}}', "known are topic, partition"),
        ('{"topic": "views", "partition": 0}', "has no 'offset'"),
        ('{"topic": "views", "partition": "0", "offset": 1}', "'partition' is not a whole number"),
        ('{"topic": 1, "partition": 0, "offset": 1}', "'topic' is not a text"),
        (f'{{{PLACE}, "attempt": true}}', "'attempt' is not a whole number"),
        (f'{{{PLACE}, "value": {{"a": 1}}}}', "'value' is neither text nor null"),
        (f'{{{PLACE}, "value": "x", "value_base64": "eA=="}}', "has both 'value' and 'value_base64'"),
        (f'{{{PLACE}, "key_base64": "?"}}', "'key_base64' is no base64"),
        (f'{{{PLACE}, "key_base64": 7}}', "'key_base64' is no base64"),
    ],
)
def test_a_line_that_cannot_be_used_is_told_with_its_number(given: str, said: str) -> None:
    with pytest.raises(RepairUnfit, match=r"r\.jsonl:2: ") as told:
        parse(f"\n{given}\n", "r.jsonl")
    assert said in told.value.message


def test_all_of_them_at_once_and_none_is_nothing() -> None:
    good = f'{{{PLACE}, "value": "x"}}'
    with pytest.raises(RepairUnfit) as told:
        parse(f"{good}\n{{\n{good}", "r")
    assert [one.partition(": ")[0] for one in told.value.message.splitlines()] == ["r:2", "r:3"]
    with pytest.raises(RepairUnfit, match="and 5 lines more"):
        parse("\n".join(["["] * 25), "r")
    with pytest.raises(RepairUnfit, match="r has no line"):
        parse("\n\n", "r")
