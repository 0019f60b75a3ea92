"""The text of `--schemas`: what it says, and what it may not say."""

from __future__ import annotations

import pytest

from lakestreams.engine.runtime.schemas import parse
from lakestreams.errors import InvalidName, InvalidOption


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, {}),
        ("", {}),
        ("control=_streams", {"control_schema": "_streams"}),
        (" bronze = Raw_1 , silver=results", {"bronze_schema": "Raw_1", "silver_schema": "results"}),
        ("bronze=silver,silver=gold", {"bronze_schema": "silver", "silver_schema": "gold"}),
    ],
)
def test_what_it_says(text: str | None, said: dict[str, str]) -> None:
    assert parse(text) == said


@pytest.mark.parametrize("name", ["", "my-streams", "1st", "a.b", "a`b", "a b", "a/b", "..", "größe", "a" * 256])
def test_what_is_no_plain_identifier_is_refused(name: str) -> None:
    with pytest.raises(InvalidName) as refused:
        parse(f"bronze=raw,control={name}")
    assert refused.value.message == f"the schema of control is {name!r}"
    assert "letters, digits and _" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gold=a", "--schemas: 'gold=a'"),
        ("raw", "--schemas: 'raw'"),
        ("bronze=a,", "--schemas: ''"),
        ("bronze=a,bronze=b", "'bronze=b' names a schema of this kind a second time"),
        ("bronze=a,control=A", "bronze and control would both use the schema A"),
        ("bronze=silver", "bronze and silver would both use the schema silver"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse(text)
    assert told in refused.value.message
