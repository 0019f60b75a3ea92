"""Topics of a broker by hand, for `lakestreams local`: made, listed, deleted, written and read as JSON lines.

A line is `{"key": ..., "value": ..., "at": ..., "partition": ..., "headers": {...}}`. Texts are written as they are, objects,
lists and numbers as JSON, null as null; `{"$base64": ...}`, `{"$long": ...}` and `{"$int": ...}` are bytes. What is read can
be written again.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from lakestreams.errors import BrokerNotReady, BrokerUnreachable, InvalidOption, TopicMissing
from lakestreams.errors.places import FilePlace
from lakestreams.kafka.transient import passes
from lakestreams.local.broker import PRODUCER, Record, send
from lakestreams.times import alone

_WITHIN_S: Final = 30.0
_KEYS: Final = ("key", "value", "at", "at_ms", "partition", "headers")
_READ_ONLY: Final = ("topic", "offset")
_NUMBERS: Final = {"$int": 4, "$long": 8}
_MOST_MS: Final = 2**63 - 1  # that a record can hold


# --- lines ---------------------------------------------------------------------------------------------------------


def parsed(lines: Iterable[str], file: str) -> Iterator[Record]:
    """The records of JSON lines; empty lines are passed over.

    Raises:
        InvalidOption: for the first line that is none, with its number.
    """
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                yield _line(text)
            except ValueError as error:
                hint = 'such as {"key": "alice", "value": {"page": "/"}, "at": "2026-01-31T12:00:00Z"}'
                raise InvalidOption(str(error), hint=hint, where=FilePlace(file, number)) from None


def _line(text: str) -> Record:
    try:
        given = json.loads(text)
    except RecursionError:
        msg = "the line nests too deep"
        raise ValueError(msg) from None
    except json.JSONDecodeError as error:
        msg = f"the line is not JSON: {error.msg.lower()} at character {error.colno}"
        raise ValueError(msg) from None
    if not isinstance(given, dict) or "value" not in given:
        msg = "the line is no JSON object with a value"
        raise ValueError(msg)
    unknown = [key for key in given if key not in (*_KEYS, *_READ_ONLY)]
    if unknown:
        msg = f"a record has no {unknown[0]!r}; it has {', '.join(_KEYS)}"
        raise ValueError(msg)
    partition, headers = given.get("partition"), given.get("headers") or {}
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
        msg = f"partition is {partition!r}; it is a number from 0"
        raise ValueError(msg)
    if not isinstance(headers, dict):
        msg = "headers is no mapping of names to values"
        raise ValueError(msg)  # noqa: TRY004 - what `parsed` collects
    pairs = tuple((name, _bytes(one)) for name, value in headers.items() for one in _several(value))
    at_ms = _ms(given["at_ms"] if given.get("at_ms") is not None else given.get("at"))
    return Record(_bytes(given.get("key")), _bytes(given["value"]), at_ms, partition, pairs)


def _several(value: Any) -> list[Any]:
    """A header that comes several times has a list of values."""
    return value if isinstance(value, list) else [value]


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and len(value) == 1:
        ((word, inside),) = value.items()
        if word in _NUMBERS:
            return _number(word, inside)
        if word == "$base64":
            try:
                return base64.b64decode(inside, validate=True)
            except (binascii.Error, TypeError, ValueError):
                msg = f"{inside!r} is not base64"
                raise ValueError(msg) from None
    return json.dumps(value, ensure_ascii=False).encode()


def _number(word: str, value: Any) -> bytes:
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise TypeError  # else 1.7 would be written as 1
        return int(value).to_bytes(_NUMBERS[word], "big", signed=True)
    except (TypeError, ValueError, OverflowError):
        msg = f"{value!r} is no whole number of {_NUMBERS[word]} bytes"
        raise ValueError(msg) from None


def _ms(at: Any) -> int | None:
    if at is None:
        return None
    if isinstance(at, int) and not isinstance(at, bool):
        ms = at
    else:
        try:
            moment = datetime.fromisoformat(str(at))
        except ValueError:
            msg = f"at is {at!r}; it is a time like 2026-01-31T12:00:00Z, or milliseconds since 1970"
            raise ValueError(msg) from None
        ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    if ms > _MOST_MS:
        msg = f"at is {at!r}; a record can hold {_MOST_MS} ms at most"
        raise ValueError(msg)
    if ms < 1:
        msg = f"at is {at!r}; times begin at 1 ms after 1970, as Kafka's client takes 0 for now"
        raise ValueError(msg)
    return ms


def shown(message: Message) -> dict[str, Any]:
    """A record as a line says it."""
    stamp: Any = message.timestamp()
    at_ms = stamp[1]
    found: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": _readable(message.key()),
        "value": _readable(message.value()),
        "at": alone(at_ms),
        "at_ms": at_ms,
    }
    headers: dict[str, list[Any]] = {}
    given: Any = message.headers() or ()
    for name, value in given:
        headers.setdefault(name, []).append(_readable(value))
    if headers:
        found["headers"] = {name: values[0] if len(values) == 1 else values for name, values in headers.items()}
    return found


def _readable(raw: bytes | str | None) -> Any:
    """JSON objects as such, other text as text, anything else in Base64."""
    if raw is None or isinstance(raw, str):
        return raw
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return {"$base64": base64.b64encode(raw).decode()}
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # written again it must be the same bytes
    same = isinstance(value, dict) and json.dumps(value, ensure_ascii=False) == text and "$" not in "".join(value)
    return value if same else text


# --- the broker ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Topics:
    """The topics of a broker.

    Attributes:
        servers: its address.
    """

    servers: str

    def counts(self) -> dict[str, list[int]]:
        """The end offset of each partition, by topic; Kafka's own topics are left out."""
        admin = self._admin()
        topics = {name: topic for name, topic in self._known(admin).items() if not name.startswith("__")}
        at = [TopicPartition(name, number) for name, topic in topics.items() for number in sorted(topic.partitions)]
        ends = admin.list_offsets({one: OffsetSpec.latest() for one in at}) if at else {}  # type: ignore[no-untyped-call]
        found: dict[str, list[int]] = {name: [] for name in sorted(topics)}
        for one in at:
            found[one.topic].append(int(ends[one].result(_WITHIN_S).offset))
        return found

    def create(self, name: str, partitions: int) -> None:
        """Makes a topic.

        Raises:
            InvalidOption: if it is there, or cannot be.
        """
        admin = self._admin()  # held: it answers only as long as it lives
        try:
            admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_WITHIN_S)
        except KafkaException as error:
            raise _refused(error, name) from None
        self._until(lambda: self._led(name) == partitions, name)

    def delete(self, name: str) -> None:
        """Deletes a topic with all of its records."""
        self._require(name)
        admin = self._admin()
        admin.delete_topics([name])[name].result(_WITHIN_S)
        self._until(lambda: name not in self._known(self._admin()), name)

    def produce(self, topic: str, lines: Iterable[Record]) -> list[tuple[int, int]]:
        """Writes records in their order, with the partitioner of Kafka's Java clients; returns partition and offset of each.

        Raises:
            TopicMissing: if there is no such topic.
            InvalidOption: if the broker refuses a record.
        """
        partitions = len(self._require(topic))
        producer = Producer(self._config(PRODUCER))
        written: list[tuple[int, int]] = []
        refused: list[KafkaError] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
            else:
                written.append((message.partition() or 0, message.offset() or 0))

        for line in lines:
            if line.partition is not None and line.partition >= partitions:
                msg = f"{topic} has no partition {line.partition}"
                raise InvalidOption(msg, hint=f"its partitions are 0 to {partitions - 1}")
            send(producer, topic, line, note)
        left = producer.flush(_WITHIN_S)
        if refused:
            raise _refused(KafkaException(refused[0]), topic)
        if left:
            msg = f"{left} records were not delivered to {self.servers} within {_WITHIN_S:.0f} s; {len(written)} were"
            raise BrokerUnreachable(msg, hint="see whether the broker still runs; some of the records may be there")
        return written

    def consume(self, topic: str, *, limit: int | None, follow: bool) -> Iterator[dict[str, Any]]:
        """The records of a topic from its beginning, partition by partition as they come.

        Args:
            limit: how many at most.
            follow: wait for further ones, for ever.

        Raises:
            TopicMissing: if there is no such topic.
        """
        partitions = self._require(topic)
        config = {"group.id": "lakestreams-local", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer(self._config({**config, "auto.offset.reset": "earliest"}))
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        given, waiting = 0, set(partitions)
        try:
            while (follow or waiting) and (limit is None or given < limit):
                message = consumer.poll(0.5)
                error = None if message is None else message.error()
                if message is None:
                    continue
                if error is None:
                    given += 1
                    yield shown(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition() or 0)
                elif not passes(KafkaException(error)):
                    raise _refused(KafkaException(error), topic)
        finally:
            consumer.close()

    def _require(self, topic: str) -> list[int]:
        """The partitions of a topic.

        Raises:
            TopicMissing: if there is no such topic.
        """
        known = self._known(self._admin())
        if topic not in known:
            others = ", ".join(name for name in sorted(known) if not name.startswith("__"))
            hint = f"lakestreams local topic {topic}" + (f"; there are: {others}" if others else "")
            raise TopicMissing(f"the broker at {self.servers} has no topic {topic}", hint=hint)
        return sorted(known[topic].partitions)

    def _known(self, admin: AdminClient) -> dict[str, Any]:
        try:
            return dict(admin.list_topics(timeout=10).topics)
        except KafkaException:
            msg = f"no broker answers at {self.servers}"
            raise BrokerUnreachable(msg, hint="lakestreams local up starts one") from None

    def _led(self, topic: str) -> int:
        found = self._known(self._admin()).get(topic)
        return 0 if found is None else sum(1 for one in found.partitions.values() if one.leader >= 0)

    def _admin(self) -> AdminClient:
        return AdminClient(self._config({}))

    def _config(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "log_level": 0, **more}

    @staticmethod
    def _until(done: Callable[[], bool], topic: str) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while not done():
            if time.monotonic() > deadline:
                raise BrokerNotReady(f"the broker is not done with topic {topic} after {_WITHIN_S:.0f} s")
            time.sleep(0.02)


def _refused(error: KafkaException, topic: str) -> InvalidOption:
    said = error.args[0] if error.args else None
    if isinstance(said, KafkaError) and said.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return InvalidOption(f"the topic {topic} is there already", hint="lakestreams local topic lists what there is")
    text = said.str() if isinstance(said, KafkaError) else str(error)
    return InvalidOption(f"the broker refuses it for topic {topic}: {text}", hint="change what it names")


__all__ = ["Topics", "parsed", "shown"]
