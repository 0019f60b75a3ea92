"""`lakestreams local`: a broker on this machine, and its topics by hand."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lakestreams.cli.command import command

if TYPE_CHECKING:
    from lakestreams.cli.screen import Screen
    from lakestreams.local.topics import Topics

PORT: Final = 9092  # where the files of conf/ look for Kafka

app = typer.Typer(no_args_is_help=True, help="A Kafka broker on this machine, and records in and out of it.")
Servers = Annotated[
    str | None, typer.Option(help="The address of another broker; by default the one that `local up` started.")
]


@app.command()
@command
def up(
    screen: Screen,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Its port; 0 takes any free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the broker's data; it is kept.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data for the next `up`.")] = False,
    registry: Annotated[bool, typer.Option("--registry", help="Start a schema registry too, in memory.")] = False,
) -> int:
    """Starts a Kafka broker on 127.0.0.1:9092, or finds the one that runs; with --registry also a schema registry.

    Exit codes: 0 it runs, 1 it could not be started.
    """
    from lakestreams.errors import InvalidOption, PortTaken  # noqa: PLC0415 - not for --help
    from lakestreams.local import registry as schema_registry  # noqa: PLC0415 - as above
    from lakestreams.local import user_broker  # noqa: PLC0415 - needs confluent-kafka

    wanted = PORT if port is None else port
    try:
        with screen.working("starting the broker"):
            broker = user_broker.up(data_dir, keep, progress=screen.say, port=wanted or None)
    except PortTaken as error:
        raise PortTaken(
            error.message, hint="choose another port, such as --port 9192; --port 0 takes any free one"
        ) from None
    runs_at = int(broker.bootstrap_servers.rpartition(":")[2])
    others = [f"at {broker.bootstrap_servers}"] if port and port != runs_at else []
    others += [f"on the data in {broker.data_dir}"] if data_dir and str(data_dir.resolve()) != broker.data_dir else []
    others += ["and its data go when it ends"] if keep and not broker.kept else []
    if others:
        wanted_port = f" --port {port}" if port else ""
        hint = f"stop it first: lakestreams local down; then lakestreams local up{wanted_port}"
        raise InvalidOption(f"a broker runs already, {', '.join(others)}", hint=hint)
    screen.say(f"broker at {broker.bootstrap_servers} (log {broker.log})")
    if runs_at != PORT:
        screen.say(f"  export KAFKA_BOOTSTRAP={broker.bootstrap_servers}")
    if not registry:
        screen.result(asdict(broker))
        return 0
    with screen.working("starting the schema registry"):
        registry_info = schema_registry.up(progress=screen.say)
    screen.say(f"schema registry at {registry_info.url}")
    screen.say(f"  export SCHEMA_REGISTRY_URL={registry_info.url}")
    screen.result({**asdict(broker), "registry": asdict(registry_info)})
    return 0


@app.command()
@command
def down(screen: Screen) -> int:
    """Ends the broker, and the schema registry, that `up` started.

    Exit codes: 0 it is gone, also when there was none.
    """
    from lakestreams.local import registry, user_broker  # noqa: PLC0415 - needs confluent-kafka

    ended = user_broker.down()
    if registry.down():
        screen.say("schema registry ended")
    screen.say("broker ended" if ended else "no broker was running")
    screen.result({"ended": ended})
    return 0


@app.command()
@command
def topic(
    screen: Screen,
    name: Annotated[str | None, typer.Argument(help="The topic; without one all topics are listed.")] = None,
    partitions: Annotated[int, typer.Option(min=1, max=1000, help="How many partitions it gets.")] = 1,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it, with its records.")] = False,
    bootstrap_servers: Servers = None,
) -> int:
    """Makes a topic, or lists all topics with their partitions and records.

    Exit codes: 0 done, 1 it could not be done.
    """
    from lakestreams.cli.screen import table  # noqa: PLC0415 - rich, not for --help

    topics = _topics(bootstrap_servers)
    if name is None:
        counts = topics.counts()
        rows = [(one, len(ends), sum(ends)) for one, ends in counts.items()]
        columns = ("topic", "partitions", "records")
        screen.show(table(*columns, rows=rows, right=columns[1:]) if rows else "no topic yet")
        screen.result({"topics": counts})
        return 0
    if delete:
        topics.delete(name)
    else:
        topics.create(name, partitions)
    screen.say(f"topic {name} {'deleted' if delete else f'with {partitions} partitions'}")
    screen.result({"topic": name, "partitions": 0 if delete else partitions})
    return 0


@app.command()
@command
def produce(
    screen: Screen,
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    file: Annotated[Path | None, typer.Argument(help="A file of JSON lines; standard input by default.")] = None,
    bootstrap_servers: Servers = None,
) -> int:
    """Writes records, one JSON line each: key, value, at, partition, headers.

    Only value is needed: {"key": "alice", "value": {"page": "/"}, "at": "2026-01-31T12:00:00Z"}. Objects are written as
    JSON, null as null; {"$long": 5}, {"$int": 5} and {"$base64": "/w=="} are bytes.

    Exit codes: 0 written, 1 a line could not be read (then none is written), or the broker refused it.
    """
    from lakestreams.errors import ConfigUnreadable  # noqa: PLC0415 - not for --help

    topics = _topics(bootstrap_servers)
    from lakestreams.local.topics import parsed  # noqa: PLC0415 - needs confluent-kafka, whose lack is reported above

    try:
        lines = (sys.stdin.buffer.read() if file is None else file.read_bytes()).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigUnreadable(f"{file or 'standard input'} cannot be read: {error}") from None
    written = topics.produce(topic, list(parsed(lines.splitlines(), "stdin" if file is None else str(file))))
    screen.say(f"{len(written)} record{'' if len(written) == 1 else 's'} written to {topic}")
    screen.result({"topic": topic, "records": [{"partition": at, "offset": offset} for at, offset in written]})
    return 0


@app.command()
@command
def consume(
    screen: Screen,
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, help="How many records at most.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for further records, until Ctrl-C.")] = False,
    bootstrap_servers: Servers = None,
) -> int:
    """Prints a topic's records from its beginning, one JSON line each, as `produce` takes them.

    Exit codes: 0 printed, 1 there is no such topic.
    """
    topics = _topics(bootstrap_servers)
    records = []
    with contextlib.suppress(KeyboardInterrupt):  # how following ends
        for record in topics.consume(topic, limit=limit, follow=follow):
            if not screen.line(record):
                break  # nobody reads any more
            if screen.as_json:
                records.append(record)
    screen.result({"topic": topic, "records": records})
    return 0


def _topics(servers: str | None) -> Topics:
    """The topics of a broker, by default of the one that `up` started."""
    from lakestreams.errors import BrokerUnreachable  # noqa: PLC0415 - not for --help
    from lakestreams.kafka.options import KafkaOptions  # noqa: PLC0415 - as above
    from lakestreams.local import user_broker  # noqa: PLC0415 - needs confluent-kafka
    from lakestreams.local.topics import Topics  # noqa: PLC0415 - as above

    broker = user_broker.info() if servers is None else None
    if servers is None and broker is None:
        raise BrokerUnreachable("no local broker runs", hint="start one: lakestreams local up")
    if servers is not None:
        KafkaOptions(servers)  # refuses what is no address
    return Topics(servers or (broker.bootstrap_servers if broker else ""))
