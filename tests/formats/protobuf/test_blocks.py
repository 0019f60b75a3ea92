"""Many records at once or one after the other: both ways find the same, values and messages, whatever comes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from tests.formats.avro.judge import framed
from tests.formats.protobuf.judge import kind, read, written
from tests.formats.protobuf.schemas import ALL, TWO
from tests.formats.protobuf.test_records import WAYS, broken
from tests.formats.protobuf.test_types import some

from lakestreams.formats import Protobuf, RegistryProtobuf
from lakestreams.formats.protobuf import blocks

ORDER = """
syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; int32 amount = 3; double price = 4; bool paid = 5; repeated string tags = 6;
  repeated int32 counts = 7; optional string note = 8;
}
"""
SEED = 20_261_127


def both_ways(how: Protobuf | RegistryProtobuf, raws: list[bytes | None], patch: pytest.MonkeyPatch) -> None:
    at_once = read(how, list(raws))
    with patch.context() as exactly:
        exactly.setattr(blocks, "_ONE_BY_ONE", 10**9)
        for raw, one, other in zip(raws, at_once, read(how, list(raws)), strict=True):
            assert repr(one) == repr(other), raw  # so that NaN is equal, and -0.0 not to 0.0


def of_all(by: random.Random) -> bytes:
    return written(ALL, "shop.All", **some(by))


def of_two(by: random.Random) -> bytes:
    inner = kind(TWO, "shop.Two.In")
    given = {
        "id": by.randrange(-5, 10**12), "note": by.choice(["", "x", "größe"]), "n": by.randrange(-9, 9), "state": by.choice([1, 2]),
        "loose": [by.randrange(300) for _ in range(by.randrange(4))], "tight": [by.randrange(300) for _ in range(by.randrange(4))],
        "ok": by.random() < 0.5, "raw": by.randbytes(3), "x": by.random(), "wide": by.randrange(2**64), "in": inner(a=by.randrange(5)),
        "of": {str(one): inner(b=one) for one in range(by.randrange(3))},
    }  # fmt: skip
    chosen = {name: value for name, value in given.items() if name == "id" or by.random() < 0.6}
    return kind(TWO, "shop.Two")(**chosen).SerializePartialToString()


def of_order(by: random.Random) -> bytes:
    return written(
        ORDER, "Order", id=by.randrange(2**63), customer=f"customer {by.randrange(50)}", amount=by.randrange(-5, 10**6), price=by.random(),
        paid=by.random() < 0.5, tags=["a", "größe"][: by.randrange(3)], counts=[by.randrange(10**by.randrange(9)) for _ in range(by.randrange(5))],
    )  # fmt: skip


@pytest.mark.parametrize("seed", [SEED, *(pytest.param(SEED + one, marks=pytest.mark.soak) for one in range(1, 60))])
@pytest.mark.parametrize(
    ("how", "made"),
    [
        pytest.param(Protobuf(ALL, "All"), of_all, id="every type"),
        pytest.param(Protobuf(TWO, "Two"), of_two, id="proto2"),
        pytest.param(Protobuf(ORDER), of_order, id="an order"),
    ],
)
def test_both_ways_find_the_same(
    how: Protobuf, made: Callable[[random.Random], bytes], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = random.Random(seed)
    good = [made(by) for _ in range(400)]
    bad = [broken(by, by.choice(good)) for _ in range(200)]
    mixed: list[bytes | None] = [*good, *bad, *(a + b for a, b in zip(good[:50], good[50:100], strict=True)), None, b""]
    by.shuffle(mixed)
    both_ways(how, mixed, monkeypatch)


def test_both_ways_find_the_same_of_every_way_to_break_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    by = random.Random(SEED)
    raws = [bytes.fromhex(raw) for raw, _ in WAYS]
    both_ways(Protobuf(ALL, "All"), [one for raw in raws for one in (raw, of_all(by), of_all(by) + raw)], monkeypatch)


def test_most_records_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever types they have, and with fields that are not declared among them."""
    by = random.Random(SEED)
    one_by_one: Counter[str] = Counter()
    shorter = "\n".join(line for line in ALL.splitlines() if "a_string = 14" not in line and "texts = 32" not in line)
    assert shorter != ALL
    for name, how, made in (
        ("all", Protobuf(ALL, "All"), of_all),
        ("not all declared", Protobuf(shorter, "All"), of_all),
        ("two", Protobuf(TWO, "Two"), of_two),
        ("order", Protobuf(ORDER), of_order),
    ):
        reader = type("Counting", (), {"read": staticmethod(partial(one_by_one.update, [name]))})
        monkeypatch.setattr("lakestreams.formats.protobuf.formats.reader", lambda _, reader=reader: reader)
        how.decode(pa.array([made(by) for _ in range(500)], pa.binary()))
    assert one_by_one == Counter()


def test_behind_a_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    by = random.Random(SEED)
    how = RegistryProtobuf(ALL, "All").knowing({7: (ALL,), 8: (ORDER,), 9: None}, strict=False)
    raws = [framed(by.choice([b"\2\2", b"\2\2", b"\0", b"\2\4", b""]) + of_all(by)) for _ in range(300)]
    both_ways(how, [*raws, None, b"", *(broken(by, one) for one in raws[:100])], monkeypatch)
    first = RegistryProtobuf(ORDER).knowing({7: (ORDER,)}, strict=False)
    raws = [framed(b"\0" + of_order(by), 7) for _ in range(200)]
    both_ways(first, [*raws, *(broken(by, one) for one in raws)], monkeypatch)
