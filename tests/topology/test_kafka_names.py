"""A method that a handle lacks is refused with what to write instead: Kafka Streams' names among others."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import pytest

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.api.kafka_names import INSTEAD
from lakestreams.errors import UnknownMethod

ROOT = Path(__file__).parents[2]


@pytest.fixture
def handles() -> dict[str, Any]:
    builder = StreamsBuilder("shop")
    orders = builder.stream("Orders", key=Text("customer"), value=Json("amount int"))
    table = builder.table("Accounts", key=Text("customer"), value=Json("branch string"))
    return {
        "StreamsBuilder": builder,
        "KStream": orders,
        "KTable": table,
        "KGroupedStream": orders.group_by_key(),
        "KGroupedTable": table.group_by("branch"),
        "TimeWindowedKStream": orders.group_by_key().windowed_by("1 minute"),
    }


def refused(of: Any, name: str) -> UnknownMethod:
    with pytest.raises(UnknownMethod) as caught:
        getattr(of, name)
    return caught.value


def test_every_verb_of_kafka_streams_names_ours(handles: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for of, theirs, ours in importlib.import_module("from_kafka_streams").VERBS:
        if theirs != ours:
            assert ours in refused(handles[of], theirs).hint


@pytest.mark.parametrize(
    ("of", "name", "said", "hint"),
    [
        ("KStream", "leftJoin", "the KStream Orders has no method 'leftJoin'", "did you mean left_join(...)?"),
        ("KStream", "lef_join", "the KStream Orders has no method 'lef_join'", "did you mean left_join(...)?"),
        ("KTable", "to", "the KTable Accounts has no method 'to'", INSTEAD["to"]),
        ("StreamsBuilder", "globalTable", "a StreamsBuilder has no method 'globalTable'", "did you mean global_table(...)?"),
        ("KGroupedStream", "xyz", "the KGroupedStream Orders has no method 'xyz'", "it has: aggregate, count, "),
    ],
)  # fmt: skip
def test_a_method_that_there_is_not_is_refused(
    handles: dict[str, Any], of: str, name: str, said: str, hint: str
) -> None:
    error = refused(handles[of], name)
    assert (error.code, error.name, error.message) == ("LS116", "UNKNOWN_METHOD", said)
    assert error.hint.startswith(hint)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_has_no_counterpart_stands_in_the_page_for_kafka_streams_users() -> None:
    missing = (ROOT / "docs" / "from-kafka-streams.md").read_text(encoding="utf-8").partition("What is missing:")[2]
    missing = missing.partition("\n## ")[0]
    assert [name for name in INSTEAD if name not in ("to", "print") and f"`{name}`" not in missing] == []


def test_a_handle_is_an_object_as_others_are(handles: dict[str, Any]) -> None:
    for one in handles.values():
        assert not hasattr(one, "leftJoin")
        assert not hasattr(one, "_repr_html_")
