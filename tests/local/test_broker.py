"""The broker is a real one: what is produced can be consumed, keys land where Kafka's Java clients put them."""

from __future__ import annotations

import json
import socket
import tempfile
import uuid
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from lakestreams.errors import BrokerNotReady, PortTaken
from lakestreams.local.broker import Broker, Record

pytestmark = pytest.mark.broker

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "partitioner_vectors.json").read_text())


@pytest.fixture
def topic() -> str:
    return f"local-{uuid.uuid4().hex[:8]}"


def consumed(broker: Broker, topic: str, isolation: str = "read_committed"):
    """Every record of the topic by partition and offset: (partition, offset, key, value, timestamp_ms, headers)."""
    ends = broker.end_offsets(topic)
    consumer = Consumer(
        broker.client_config(
            **{
                "group.id": "test",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    records, at_end = [], set()
    while len(at_end) < len(ends):
        message = consumer.poll(10)
        assert message is not None, "the broker fell silent"
        if message.error():
            at_end.add(message.partition())
            continue
        records.append(
            (
                message.partition(),
                message.offset(),
                message.key(),
                message.value(),
                message.timestamp()[1],
                message.headers(),
            )
        )
    consumer.close()
    return sorted(records, key=lambda record: record[:2])


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (Utils.murmur2) as a signed 32-bit number, written from its definition."""
    mask, m, h = 0xFFFFFFFF, 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def test_murmur2_of_this_test_is_kafkas():
    found = [murmur2(bytes.fromhex(vector["key_bytes_hex"])) for vector in VECTORS]
    assert found == [vector["murmur2"] for vector in VECTORS]


def test_keys_land_where_java_clients_put_them(broker, topic):
    broker.create_topic(topic, partitions=12)
    keys = [bytes.fromhex(vector["key_bytes_hex"]) for vector in VECTORS if vector["key_bytes_hex"]]
    expected = [vector["partition_by_count"]["12"] for vector in VECTORS if vector["key_bytes_hex"]]
    keys += [f"user-{number}".encode() for number in range(200)]
    expected += [(murmur2(key) & 0x7FFFFFFF) % 12 for key in keys[len(expected) :]]
    written = broker.produce(topic, [(key, b"v", 1_000) for key in keys])
    assert [place.partition for place in written] == expected


def test_round_trip_keeps_everything(broker, topic):
    broker.create_topic(topic, partitions=2)
    written = broker.produce(
        topic,
        [
            Record("käse", "wert", 1, partition=0),
            (b"\xff\x00", None, 2_000, 0),
            (None, "no key", 4_102_444_800_000, 1, [("a", b"1"), ("a", None)]),
        ],
    )
    assert written == [(0, 0), (0, 1), (1, 0)]
    assert consumed(broker, topic) == [
        (0, 0, "käse".encode(), b"wert", 1, None),
        (0, 1, b"\xff\x00", None, 2_000, None),
        (1, 0, None, b"no key", 4_102_444_800_000, [("a", b"1"), ("a", None)]),
    ]


def test_order_of_a_partition_is_the_order_given(broker, topic):
    broker.create_topic(topic)
    values = [str(number).encode() for number in range(5_000)]
    broker.produce(topic, [("k", value, 1_000) for value in values])
    assert [record[3] for record in consumed(broker, topic)] == values


def test_aborted_transactions_leave_offsets_but_no_records(broker, topic):
    broker.create_topic(topic)
    broker.produce_transaction(topic, [("k", "kept", 1)])
    broker.produce_transaction(topic, [("k", "void", 2)], abort=True)
    assert [record[3] for record in consumed(broker, topic)] == [b"kept"]
    assert [record[3] for record in consumed(broker, topic, "read_uncommitted")] == [b"kept", b"void"]
    assert broker.end_offsets(topic) == {0: 4}  # each transaction's marker has an offset too


def test_a_failed_delivery_is_raised(broker, topic):
    broker.create_topic(topic, config={"max.message.bytes": "1000"})
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        broker.produce(topic, [("k", "fits", 1), ("k", "x" * 5_000, 2)], {"compression.type": "none"})


def test_topics_are_made_by_hand_only(broker, topic):
    with pytest.raises(KafkaException):
        broker.produce(topic, [("k", "v", 1)], {"message.timeout.ms": 1_500})


def test_deleted_topic_can_be_made_anew(broker, topic):
    broker.create_topic(topic)
    broker.produce(topic, [("k", "old", 1)])
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions=3)
    assert broker.end_offsets(topic) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH])
def test_a_partition_whose_leader_does_not_know_it_yet_is_asked_for_again(broker, topic, monkeypatch, code):
    """What a loaded machine gives rise to, both seen; a stress of hundreds of new topics shows them no more."""
    asked, ask = [], AdminClient.list_offsets

    def refused_once(admin, wanted, **options):
        asked.append(sorted(at.partition for at in wanted))
        if len(asked) > 1:
            return ask(admin, wanted, **options)
        refused = Future()
        refused.set_exception(KafkaException(KafkaError(code)))
        return dict.fromkeys(wanted, refused)

    monkeypatch.setattr(AdminClient, "list_offsets", refused_once)
    broker.create_topic(topic, partitions=2)
    assert asked[:2] == [[0, 1], [0, 1]]  # on a loaded machine a leader may be unknown for once more


def test_any_other_refusal_is_told(broker, topic, monkeypatch):
    def refused(_, wanted, **__):
        refusal = Future()
        refusal.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        return dict.fromkeys(wanted, refusal)

    broker.create_topic(topic)
    monkeypatch.setattr(AdminClient, "list_offsets", refused)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        broker.end_offsets(topic)


def test_timestamp_zero_is_refused_rather_than_replaced(broker, topic):
    broker.create_topic(topic)
    with pytest.raises(ValueError, match="timestamp_ms is 0"):
        broker.produce(topic, [("k", "v", 0)])


def test_listens_on_loopback_only(broker):
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(broker.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening  # the client and the controller listener
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_restart_on_kept_data_has_the_same_records_and_port(tmp_path):
    folder = tmp_path / "kept"
    with Broker(data_dir=folder) as first:
        first.create_topic("t", partitions=2)
        first.produce("t", [("a", "1", 1), ("b", "2", 2)])
        before, address = consumed(first, "t"), first.bootstrap_servers
    with Broker(data_dir=folder) as second:
        assert second.bootstrap_servers == address
        assert consumed(second, "t") == before
        second.produce("t", [("a", "3", 3)])


def test_kept_data_move_to_another_port_if_theirs_is_taken(tmp_path):
    with Broker(data_dir=tmp_path) as first:
        first.create_topic("t")
        first.produce("t", [("a", "1", 1)])
        port = int(first.bootstrap_servers.rpartition(":")[2])
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with Broker(data_dir=tmp_path) as second:
            assert second.bootstrap_servers != f"127.0.0.1:{port}"
            assert second.end_offsets("t") == {0: 1}


@pytest.mark.crash
def test_killed_broker_comes_back_with_everything_acknowledged():
    with Broker() as broker:
        broker.create_topic("t")
        broker.produce("t", [("a", str(number), 1) for number in range(1_000)])
        address, pid, folder = broker.bootstrap_servers, broker.pid, broker.data_dir
        broker.kill()
        assert not psutil.pid_exists(pid)
        broker.start()
        assert broker.bootstrap_servers == address
        assert broker.end_offsets("t") == {0: 1_000}
    assert not folder.exists()


def test_a_port_that_is_taken_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            Broker(port=port).start()
    assert list(tmp_path.iterdir()) == []


def test_the_race_for_a_port_is_run_again(monkeypatch):
    """Somebody takes the port between our choice and the broker's bind: another one is chosen."""
    from lakestreams.local import broker_process

    choose = broker_process._free_ports
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        choices = iter([(taken, choose(None)[1])])
        monkeypatch.setattr(broker_process, "_free_ports", lambda wanted: next(choices, None) or choose(wanted))
        with Broker() as broker:
            assert broker.bootstrap_servers != f"127.0.0.1:{taken}"
            broker.create_topic("t")


def test_a_broker_that_cannot_start_shows_its_log(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
    meta = tmp_path / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(BrokerNotReady, match=r"(?s)ended while starting.*node"):
        Broker(data_dir=tmp_path).start()


def test_a_folder_may_have_letters_of_any_alphabet(tmp_path):
    """Java reads files of properties as Latin-1: `log.dirs` was another folder."""
    folder = tmp_path / "dätä \U0001f40d"
    with Broker(data_dir=folder) as broker:
        broker.create_topic("t")
        assert (folder / "data" / "t-0").is_dir()


def test_a_comma_in_the_folder_is_refused(tmp_path):
    with pytest.raises(BrokerNotReady, match="has a comma"):
        Broker(data_dir=tmp_path / "a,b").start()


def test_a_broker_that_was_stopped_can_be_closed(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.stop()
        broker.stop()
    assert (tmp_path / "data" / "meta.properties").is_file()


def test_unstarted_broker_has_no_address():
    with pytest.raises(BrokerNotReady, match="not been started"):
        _ = Broker().bootstrap_servers
