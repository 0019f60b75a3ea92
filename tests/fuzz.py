"""Seeded records of which a tenth is fuzzed: every kind of fault has a name, and says what must become of its record.

A fault that cannot be told from its bytes alone, such as a flipped bit, is judged here by Python's own JSON parser.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lakestreams.engine.ingest.reading import FUTURE_TIMESTAMP, MALFORMED_KEY, MALFORMED_VALUE, NO_TIMESTAMP
from lakestreams.engine.publish.quarantine import EXPECTATION, NULL_KEY, NULL_VALUE

START: Final = 1_600_000_000_000  # in September 2020; no fault comes near the machine's clock
_YEAR_2999: Final = 32_472_144_000_000
_YEAR_9999: Final = 253_402_300_799_999
_LARGEST: Final = 2**63 - 1
_NO_TIME: Final = -1  # as Kafka writes it
MIB: Final = 2**20

_Headers = list[tuple[str, bytes | None]] | None


@dataclass(frozen=True)
class Shape:
    """The values of a topic, and what its source does with a record that lacks something.

    Attributes:
        fields: name to SQL type. One that is named `ms` is the event time, with the record's own as fallback.
        number, text: the names of a bigint (not `ms`) and of a string among them.
        null_key: the reason that a record without a key has in quarantine; None: it is as good as any.
        null_value: that of one without a value; None: it is a deletion.
    """

    fields: Mapping[str, str]
    number: str
    text: str
    null_key: str | None
    null_value: str | None

    @property
    def schema(self) -> str:
        """Spark DDL."""
        return ", ".join(f"{name} {kind}" for name, kind in self.fields.items())

    @property
    def timed(self) -> bool:
        """Whether the event time is a field of the value."""
        return "ms" in self.fields


_STREAM_FIELDS: Final = {
    "ms": "bigint", "n": "bigint", "page": "string", "price": "double", "day": "date", "tags": "array<string>",
}  # fmt: skip
VIEWS: Final = Shape(_STREAM_FIELDS, "n", "page", EXPECTATION, NULL_VALUE)
"""A stream whose source is declared with `keys_not_null="drop"`."""
JOINED: Final = Shape(_STREAM_FIELDS, "n", "page", None, NULL_VALUE)
"""A side of an outer join, where a record without a key comes out unmatched."""
USERS: Final = Shape({"region": "string", "visits": "bigint", "since": "date"}, "visits", "region", NULL_KEY, None)
"""A table; its times are the records' own."""


class Fuzzed(NamedTuple):
    """A record as `Broker.produce` takes it, then its fault ("" if it has none) and its reason in quarantine, if any."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    partition: int | None
    headers: _Headers
    fault: str
    code: str | None

    @property
    def record(self) -> tuple[Any, ...]:
        """What is produced."""
        return self[:5]


def records(
    shape: Shape, count: int, seed: object, *, keys: int = 500, step_ms: int = 10, share: float = 0.1, huge: int = 0
) -> Iterator[Fuzzed]:
    """So many records of a seed, all kinds of faults in turn.

    A record that is bad but can be read (no key, no value) has the earliest time, since it moves the clock: without it the
    good ones come out the same.

    Args:
        shape: of the topic.
        count: how many records.
        seed: the same seed, the same records.
        keys: how many keys there are.
        step_ms: time between two records; every fourth is late.
        share: how much is fuzzed.
        huge: how many records are of 1 to 10 MiB.
    """
    rng = random.Random(f"{seed}/{shape.schema}")
    kinds = list(FAULTS)
    rng.shuffle(kinds)
    turn, every = 0, count // huge if huge else 0
    for number in range(count):
        ms = START + step_ms * number - (0 if number % 4 else min(25, step_ms * number))
        one = _One(shape, f"u{rng.randrange(keys)}".encode(), ms, _ordinary(shape, rng, number, ms))
        fault = ""
        if every and number % every == every - 1:
            fault = list(HUGE)[number // every % len(HUGE)]
            HUGE[fault](one, rng)
        elif rng.random() < share:
            fault, turn = kinds[turn % len(kinds)], turn + 1
            FAULTS[fault](one, rng)
        partition = 0 if one.key is None else None
        yield Fuzzed(one.key, one.value, one.own_ms, partition, one.headers, fault, one.code)


def _ordinary(shape: Shape, rng: random.Random, number: int, ms: int) -> dict[str, str]:
    if not shape.timed:
        return {"region": f'"r{rng.randrange(40)}"', "visits": str(number), "since": '"2019-05-17"'}
    day = f'"2020-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"'
    price, tags = f"{rng.randrange(10_000) / 100}", '["new", "größe"]' if number % 3 else "[]"
    return {
        "ms": str(ms),
        "n": str(number),
        "page": f'"/{rng.randrange(90)}"',
        "price": price,
        "day": day,
        "tags": tags,
    }


class _One:
    """A record in the making: good until a fault has been at it."""

    def __init__(self, shape: Shape, key: bytes, ms: int, fields: dict[str, str]) -> None:
        self.shape = shape
        self.key: bytes | None = key
        self.own_ms = ms
        self.fields = fields  # name to JSON text
        self.headers: _Headers = None
        self.code: str | None = None
        self._raw: tuple[bytes | None] | None = None

    @property
    def text(self) -> str:
        """The value as JSON."""
        return "{" + ", ".join(f'"{name}": {value}' for name, value in self.fields.items()) + "}"

    @property
    def value(self) -> bytes | None:
        """The value's bytes."""
        return self._raw[0] if self._raw is not None else self.text.encode()

    def becomes(self, raw: bytes | str | None, code: str | None) -> None:
        """Has these bytes instead of its fields."""
        self._raw = (raw.encode() if isinstance(raw, str) else raw,)
        self.code = code

    def early(self) -> None:
        """Has the earliest time, so that it moves no clock."""
        self.own_ms = START
        if self.shape.timed:
            self.fields["ms"] = str(START)


_Fault = Callable[[_One, random.Random], None]


# --- values that are not one object of the schema ----------------------------------------------------------------------


def _plus(text: str, member: str) -> str:
    """An object with one member more."""
    return f"{text[:-1]}, {member}}}"


def _other(raw: bytes) -> Callable[[str], bytes]:
    """A member of a text of these bytes."""
    return lambda text: _plus(text, '"zz": "@"').encode().replace(b"@", raw)


_BROKEN: Final[dict[str, Callable[[str], str | bytes]]] = {
    "empty": lambda _: b"",
    "blank": lambda _: " \n ",
    "words after": lambda text: f"{text} x",
    "an object after": lambda text: f"{text} {text}",
    "a brace after": lambda text: f"{text}}}",
    "a bracket after": lambda text: f"{text}]",
    "brackets that close and open": lambda text: f'{text}], "x": [{text}',
    "all that is open closed": lambda text: f"{text}]}} {text}",
    "no brace": lambda text: text[:-1],
    "a comma at the end": lambda text: f"{text[:-1]},}}",
    "a list": lambda text: f"[{text}]",
    "a text": json.dumps,
    "a number": lambda _: "5",
    "null": lambda _: "null",
    "single quotes": lambda text: text.replace('"', "'"),
    "names without quotes": lambda text: f"{text[:-1]}, zz: 5}}",
    "a comment": lambda text: f"{text[:-1]} /* */}}",
    "a newline in a text": lambda text: _plus(text, '"zz": "a\nb"'),
    "an escape that is none": lambda text: _plus(text, '"zz": "\\q"'),
    "a number with a leading zero": lambda text: _plus(text, '"zz": 01'),
    "NaN that is not read": lambda text: _plus(text, '"zz": NaN'),
    "byte order mark": lambda text: f"\ufeff{text}",
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-8: a lone byte": _other(b"\xff"),
    "UTF-8: Latin-1": _other("é".encode("latin-1")),
    "UTF-8: cut": _other(b"\xe2\x82"),
    "UTF-8: overlong": _other(b"\xc0\xaf"),
    "UTF-8: a surrogate": _other(b"\xed\xa0\x80"),
    "UTF-8: beyond Unicode": _other(b"\xf5\x80\x80\x80"),
    "lists 10,000 deep": lambda text: _plus(text, '"zz": ' + "[" * 10_000 + "]" * 10_000),
    "objects 10,000 deep": lambda text: _plus(text, '"zz": ' + '{"a":' * 10_000 + "1" + "}" * 10_000),
    "lists that are not closed": lambda text: _plus(text, '"zz": ' + "[" * 10_000),
    "a number of 2,000 digits": lambda text: _plus(text, '"zz": ' + "9" * 2_000),
    "a name of 60,000 letters": lambda text: _plus(text, f'"{"k" * 60_000}": 1'),
}
_UNFIT: Final[dict[str, tuple[str, ...]]] = {
    "bigint": ('"12"', '""', '"NaN"', "1.5", "1.0", "1e3", "true", "[]", "{}", "[1]", "NaN", "9223372036854775808",
               "-9223372036854775809", "1" + "0" * 400),
    "double": ('"1.5"', '""', "true", "[]", "{}", "NaN", "Infinity", "-Infinity", '"NaN"', '"Infinity"'),
    "date": ("5", "true", '""', '"yesterday"', '"2023-02-29"', '"1900-02-29"', '"2024-02-30"', '"2024-13-01"',
             '"0000-00-00"', "[]", '"12345678-01-01"'),
    "array<string>": ('"x"', "5", "{}", "true", '["\\ud800"]'),
    "string": ('"\\ud800"', '"\\udc00\\ud800"'),
}  # fmt: skip
_FIT: Final[dict[str, tuple[str, ...]]] = {
    "bigint": ("0", "-0", "null", str(_LARGEST), str(-(2**63))),
    "double": ("5", "-0.0", "1e-400", "1E5", "null", "1234567890123456789012345678901234567890", "1.7976931348623157e308"),
    "date": ('"2024-02-29"', '"2000-02-29"', '"9999-12-31"', '"0001-01-01"', '"1582-10-10"', '"1969-12-31"', "null"),
    "array<string>": ("[null, null]", "[[1], {}]", '["", "\\u0000"]', "null"),
    "string": ('"\\u0000"', '"\\ud83d\\ude00"', '"\\ufeff"', '{"q": [1, {}]}', "[[[]]]", "5.0", "true", "null",
               '"' + "\U0010ffff" * 40 + '"', '"' + "\uffff" * 33 + '"', "\"'; drop table x; --\""),
}  # fmt: skip
_ODD: Final[dict[str, Callable[[str], str]]] = {
    "odd: no field at all": lambda _: "{}",
    "odd: blanks around": lambda text: f" \r\n\t{text}\n",
    "odd: lists 900 deep": lambda text: _plus(text, '"zz": ' + "[" * 900 + "]" * 900),
    "odd: a huge exponent that is not read": lambda text: _plus(text, '"zz": 1e1000000000'),
    "odd: names like our own": lambda text: _plus(text, '"_ls_end": 5, "_ls_record": [], "_ls_corrupt": "x"'),
    "odd: brackets in a text": lambda text: _plus(text, '"zz": "}], {[ \\" ]}"'),
    "odd: 300 fields that are not read": lambda text: _plus(text, ", ".join(f'"z{n}": [{n}]' for n in range(300))),
}


def _broken(make: Callable[[str], str | bytes]) -> _Fault:
    return lambda one, _rng: one.becomes(make(one.text), MALFORMED_VALUE)


def _odd(make: Callable[[str], str]) -> _Fault:
    return lambda one, _rng: one.becomes(make(one.text), None)


def _field_of(one: _One, rng: random.Random, texts: Mapping[str, tuple[str, ...]]) -> None:
    name = rng.choice([name for name, kind in one.shape.fields.items() if kind in texts and name != "ms"])
    one.fields[name] = rng.choice(texts[one.shape.fields[name]])


def _unfit(one: _One, rng: random.Random) -> None:
    _field_of(one, rng, _UNFIT)
    one.code = MALFORMED_VALUE


def _unfit_time(one: _One, rng: random.Random) -> None:
    name = "ms" if one.shape.timed else one.shape.number
    one.fields[name] = rng.choice(_UNFIT["bigint"])
    one.code = MALFORMED_VALUE


def _fit(one: _One, rng: random.Random) -> None:
    _field_of(one, rng, _FIT)


def _twice(one: _One, _rng: random.Random) -> None:
    """The last of two fields counts."""
    one.becomes(f'{{"{one.shape.number}": 5, "{one.shape.text}": "first", {one.text[1:]}', None)


def _cut(one: _One, rng: random.Random) -> None:
    raw = one.text.encode()
    one.becomes(raw[: rng.randrange(len(raw))], MALFORMED_VALUE)


def _noise(one: _One, rng: random.Random) -> None:
    one.becomes(b"\x00" + rng.randbytes(rng.randrange(200)), MALFORMED_VALUE)


# --- bytes that are changed somewhere, judged by another parser --------------------------------------------------------


def _changed(change: Callable[[bytearray, int, random.Random], None]) -> _Fault:
    """Bytes behind the time, which stays what it is; without a date, of which Spark reads more forms than it is worth."""

    def fault(one: _One, rng: random.Random) -> None:
        one.fields = {name: text for name, text in one.fields.items() if one.shape.fields[name] != "date"}
        raw = bytearray(one.text.encode())
        first = len(f'{{"ms": {one.fields["ms"]}') if one.shape.timed else 0
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            change(raw, rng.randrange(first, len(raw)), rng)
        one.becomes(bytes(raw), None if fits(one.shape, bytes(raw)) else MALFORMED_VALUE)

    return fault


def _flip(raw: bytearray, place: int, rng: random.Random) -> None:
    raw[place] ^= 1 << rng.randrange(8)


def _drop(raw: bytearray, place: int, _rng: random.Random) -> None:
    if len(raw) > place + 1:
        del raw[place]


def _insert(raw: bytearray, place: int, rng: random.Random) -> None:
    raw.insert(place, rng.choice(b'{}[]",: \\0-.et\xc3'))


def _repeat(raw: bytearray, place: int, rng: random.Random) -> None:
    stretch = raw[place : place + rng.randrange(1, 20)]
    raw[place:place] = stretch


def fits(shape: Shape, raw: bytes) -> bool:
    """Whether bytes are one object of the shape, by Python's parser. Of a field that is there twice, both must fit."""
    try:
        members = json.loads(raw.decode("utf-8"), object_pairs_hook=_Members, parse_constant=_no_constant)
        json.dumps(members, ensure_ascii=False).encode()  # halves of surrogate pairs are no characters
    except (UnicodeDecodeError, ValueError, RecursionError):
        return False
    if not isinstance(members, _Members):
        return False
    return all(value is None or _fits(shape.fields.get(name, "string"), value) for name, value in members)


class _Members(list[tuple[str, Any]]):
    """An object's members, so that doubles are seen."""


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _fits(kind: str, value: object) -> bool:
    if kind == "bigint":
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value <= _LARGEST
    if kind == "double":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "array<string>":
        return isinstance(value, list) and not isinstance(value, _Members)
    return kind == "string"  # which takes any JSON


# --- keys, times, headers ----------------------------------------------------------------------------------------------


def _key(key: bytes, code: str | None) -> _Fault:
    def fault(one: _One, _rng: random.Random) -> None:
        one.key, one.code = key, code

    return fault


def _no_key(one: _One, _rng: random.Random) -> None:
    one.early()
    one.key, one.code = None, one.shape.null_key


def _no_key_and_broken(one: _One, _rng: random.Random) -> None:
    one.key = None
    one.becomes("{", MALFORMED_VALUE)


def _no_value(one: _One, _rng: random.Random) -> None:
    if one.shape.null_value is not None:
        one.early()
    one.becomes(None, one.shape.null_value)


def _broken_key_and_no_value(one: _One, _rng: random.Random) -> None:
    one.key = b"\xfe"
    one.becomes(None, MALFORMED_KEY)


def _early(one: _One, rng: random.Random) -> None:
    """1970 is a time like any other."""
    ms = rng.choice([1, 86_399_999])
    if one.shape.timed:
        one.fields["ms"] = rng.choice(["0", str(ms)])
    else:
        one.own_ms = ms


def _negative(one: _One, rng: random.Random) -> None:
    """The record's own time stands in for a field's; for itself there is none."""
    if one.shape.timed:
        one.fields["ms"] = rng.choice(["-1", "-86400000", str(-(2**63)), "null"])
    else:
        one.own_ms, one.code = _NO_TIME, NO_TIMESTAMP


def _no_time(one: _One, rng: random.Random) -> None:
    if one.shape.timed:
        one.fields["ms"] = rng.choice(["-5", "null"])
    one.own_ms, one.code = _NO_TIME, NO_TIMESTAMP


def _future(one: _One, rng: random.Random) -> None:
    ms = rng.choice([_YEAR_2999, _YEAR_9999])
    if one.shape.timed:
        one.fields["ms"] = str(rng.choice([ms, _LARGEST]))
    else:
        one.own_ms = ms
    one.code = FUTURE_TIMESTAMP


def _own_future(one: _One, _rng: random.Random) -> None:
    """Nobody asks for the record's own time where the field has one."""
    if one.shape.timed:
        one.own_ms = _YEAR_2999


def _headers(one: _One, rng: random.Random) -> None:
    one.headers = [("", b""), ("trace", rng.randbytes(20)), ("trace", None), ("ä" * 200, b"\xff")]


FAULTS: Final[dict[str, _Fault]] = {
    **{name: _broken(make) for name, make in _BROKEN.items()},
    **{name: _odd(make) for name, make in _ODD.items()},
    "cut": _cut,
    "cut again": _cut,
    "noise": _noise,
    "another type": _unfit,
    "another type again": _unfit,
    "a time of another type": _unfit_time,
    "odd: a value at the edge of its type": _fit,
    "odd: another one at the edge": _fit,
    "odd: fields that are there twice": _twice,
    "bits flipped": _changed(_flip),
    "bits flipped again": _changed(_flip),
    "bytes dropped": _changed(_drop),
    "bytes inserted": _changed(_insert),
    "a stretch repeated": _changed(_repeat),
    "no key": _no_key,
    "no key and a broken value": _no_key_and_broken,
    "no value": _no_value,
    "a broken key and no value": _broken_key_and_no_value,
    "a key of invalid UTF-8": _key(b"u1\xff", MALFORMED_KEY),
    "odd: an empty key": _key(b"", None),
    "odd: a key with a nul": _key(b"u\x001", None),
    "odd: a key of 20,000 letters": _key(b"k" * 20_000, None),
    "odd: 1970": _early,
    "negative time": _negative,
    "no time": _no_time,
    "2999": _future,
    "odd: the record's own time is 2999": _own_future,
    "odd: headers": _headers,
}
"""Name to what is done to a record. Whether it is bad depends on the topic, and of changed bytes on their luck."""


def _long_text(size: int) -> _Fault:
    def fault(one: _One, rng: random.Random) -> None:
        one.fields[one.shape.text] = json.dumps(rng.randbytes(300).hex() * (size // 600))

    return fault


def _long_unread(one: _One, _rng: random.Random) -> None:
    one.becomes(_plus(one.text, '"zz": [' + "1.5, " * (MIB // 5) + "{}]"), None)


def _long_and_cut(size: int) -> _Fault:
    def fault(one: _One, rng: random.Random) -> None:
        _long_text(size)(one, rng)
        one.becomes(one.text[:-10], MALFORMED_VALUE)

    return fault


def _long_nesting(one: _One, _rng: random.Random) -> None:
    one.becomes(_plus(one.text, '"zz": ' + "[" * MIB), MALFORMED_VALUE)


HUGE: Final[dict[str, _Fault]] = {
    "huge: a text of 1 MiB": _long_text(MIB),
    "huge: a text of 1 MiB, cut": _long_and_cut(MIB),
    "huge: 1 MiB that is not read": _long_unread,
    "huge: lists a million deep": _long_nesting,
    "huge: a text of 10 MiB, cut": _long_and_cut(10 * MIB),
    "huge: a text of 10 MiB": _long_text(10 * MIB),
}
