"""Starts the broker's JVM under guard and waits until it answers: folders, free ports, readiness, and nothing of clients."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakestreams.errors import BrokerNotReady, PortTaken
from lakestreams.local.cache import Progress, cache_dir, locked, tail
from lakestreams.local.jars import broker_jars, jar_dir
from lakestreams.local.java import find_java, use_utf8_names
from lakestreams.local.pins import BROKER_PINS

HOST: Final = "127.0.0.1"
_HERE = Path(__file__).parent
_READY_WITHIN_S: Final = 90.0
_GRACE_S: Final = 10.0
_PORT_TRIES: Final = 5
_PORT_IN_USE = re.compile(r"Address already in use|BindException")
_STORAGE_TOOL: Final = "kafka.tools.StorageTool"
_SERVER: Final = "kafka.Kafka"


@dataclass(frozen=True)
class RunningBroker:
    """A broker that answers: its guard (our child unless detached), its JVM, its port and its folder."""

    guard: subprocess.Popen[bytes]
    jvm_pid: int
    port: int
    folder: Path

    @property
    def alive(self) -> bool:
        """Whether the guard, and with it the JVM, still runs."""
        return self.guard.poll() is None

    def end(self, order: bytes) -> None:
        """Gives the guard its order (`stop`: gracefully, `die`: at once) and returns when no process is left."""
        if self.guard.stdin is not None and not self.guard.stdin.closed:  # else it has its order already
            with contextlib.suppress(BrokenPipeError):
                self.guard.stdin.write(order + b"\n")
                self.guard.stdin.close()
        try:
            self.guard.wait(_GRACE_S + 5)
        except subprocess.TimeoutExpired:
            self.guard.kill()  # on Linux the kernel takes the JVM along
            self.guard.wait()

    def kill_jvm(self) -> None:
        """`kill -9` of the JVM alone, as an out-of-memory killer would; returns when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.jvm_pid, signal.SIGKILL)
        self.guard.wait(_GRACE_S)


def log_file(folder: Path) -> Path:
    """Where the broker of this folder writes its log."""
    return folder / "broker.log"


def launch(
    folder: Path,
    *,
    port: int | None = None,
    heap_mb: int = 256,
    detach: bool = False,
    remove: bool = False,
    progress: Progress | None = None,
) -> RunningBroker:
    """Starts a broker on the data in `folder` (new or kept) and returns when it answers.

    Args:
        folder: data, configuration and log of this broker.
        port: the client port; default is the port that this folder had last time if it is free, else any free one.
        heap_mb: the JVM's heap.
        detach: let it outlive this process.
        remove: the guard removes the folder once broker and parent are gone.
        progress: receives a line for each slow step.

    Raises:
        BrokerNotReady: it did not come up; the message holds the end of its log.
        PortTaken: `port` was asked for and is in use.
        JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to start it with.
    """
    java = _java_command(broker_jars(progress), heap_mb, folder)
    cluster_id = _prepared(folder, java)
    wanted = port or _last_port(folder)
    for _ in range(_PORT_TRIES):
        ports = _free_ports(wanted)
        if port is not None and ports[0] != port:
            break
        log_from = log_file(folder).stat().st_size if log_file(folder).exists() else 0
        running = _spawn(folder, java, ports, detach=detach, remove=remove)
        try:
            reason = _not_ready(running, cluster_id)
        except BaseException:
            _abandon(running)
            raise
        if reason is None:
            (folder / "port").write_text(str(running.port), encoding="utf-8")
            return running
        _abandon(running)
        if not _PORT_IN_USE.search(log_file(folder).read_text(encoding="utf-8", errors="replace")[log_from:]):
            raise BrokerNotReady(f"the local broker {reason}; its log ends with\n{tail(log_file(folder))}")
        wanted = None  # somebody took a port between our choice and the broker's bind
    if port is not None:
        raise PortTaken(f"port {port} on {HOST} is in use")
    raise BrokerNotReady(f"the local broker found its port taken {_PORT_TRIES} times; its log is {log_file(folder)}")


def _java_command(jars: list[Path], heap_mb: int, folder: Path) -> list[str]:
    return [
        str(find_java()),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # ready 0.5 s sooner, and leaves the second core to Spark
        "-XX:+ExitOnOutOfMemoryError",
        f"-Djava.io.tmpdir={folder / 'tmp'}",  # unpacked native libraries disappear with the folder
        f"-Dlog4j2.configurationFile={(_HERE / 'broker-log4j2.properties').as_uri()}",
        *("-cp", os.pathsep.join(map(str, jars))),
    ]


def _prepared(folder: Path, java: list[str]) -> str:
    """Makes the folder a formatted KRaft log directory unless it is one already; returns its cluster id."""
    if "," in str(folder):
        msg = f"the broker's folder {folder} has a comma, where Kafka would begin another folder"
        raise BrokerNotReady(msg, hint="choose a folder without one")
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    meta = data / "meta.properties"
    if not meta.is_file():
        data.mkdir(exist_ok=True)
        shutil.copyfile(_bootstrap_checkpoint(java), data / "bootstrap.checkpoint")
        written = meta.with_suffix(".part")
        written.write_text(
            f"version=1\nnode.id=1\ncluster.id={_kafka_id()}\ndirectory.id={_kafka_id()}\n", encoding="utf-8"
        )
        written.rename(meta)  # last, and whole: its presence says that the folder is formatted
    found = re.search(r"^cluster\.id=(.+)$", meta.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BrokerNotReady(f"{meta} has no cluster.id; it is not the data folder of a broker")
    return found.group(1).strip()


def _bootstrap_checkpoint(java: list[str]) -> Path:
    """The feature levels that `StorageTool format` writes: the same for every cluster, so made once (0.9 s) and copied."""
    kept = cache_dir() / f"kraft-{jar_dir(BROKER_PINS).name}" / "bootstrap.checkpoint"
    if kept.is_file():
        return kept
    with locked(kept.parent.name):
        if not kept.is_file():
            work = kept.parent / "work"
            shutil.rmtree(work, ignore_errors=True)
            (work / "tmp").mkdir(parents=True)
            _write_properties(work, (9092, 9093))
            command = [*java, _STORAGE_TOOL, "format", "-t", _kafka_id(), "-c", str(work / "server.properties")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_READY_WITHIN_S, check=False)
            if done.returncode != 0:
                raise BrokerNotReady(f"formatting the broker's storage failed\n{(done.stdout + done.stderr)[-2000:]}")
            (work / "data" / "bootstrap.checkpoint").rename(kept)
            shutil.rmtree(work, ignore_errors=True)
    return kept


def _kafka_id() -> str:
    """A random id as Kafka writes them: base64url of a UUID, not beginning with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _last_port(folder: Path) -> int | None:
    try:
        return int((folder / "port").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _free_ports(wanted: int | None) -> tuple[int, int]:
    """Two free ports, for clients and controller; the first is `wanted` if that is free."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for choice in (wanted or 0, 0):
            sock = held.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((HOST, choice))
            except OSError:
                sock.bind((HOST, 0))
            ports.append(int(sock.getsockname()[1]))
    return ports[0], ports[1]


def _write_properties(folder: Path, ports: tuple[int, int]) -> None:
    client, controller = ports
    own = (
        f"listeners=PLAINTEXT://{HOST}:{client},CONTROLLER://{HOST}:{controller}\n"
        f"advertised.listeners=PLAINTEXT://{HOST}:{client}\n"
        f"controller.quorum.voters=1@{HOST}:{controller}\n"
        f"log.dirs={_property(str(folder / 'data'))}\n"
    )
    fixed = (_HERE / "broker.properties").read_text(encoding="utf-8")
    (folder / "server.properties").write_text(fixed + own, encoding="utf-8")


def _property(value: str) -> str:
    """A value as Java reads it from a file of properties: Latin-1, anything else and the backslash as escapes."""
    units = value.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F and chr(code) != "\\" else f"\\u{code:04x}" for code in codes)


def _spawn(folder: Path, java: list[str], ports: tuple[int, int], *, detach: bool, remove: bool) -> RunningBroker:
    _write_properties(folder, ports)
    use_utf8_names()
    command = [
        *(sys.executable, "-I", "-S", str(_HERE / "guard.py")),
        *("--grace", str(_GRACE_S), "--log", str(log_file(folder))),
        *(("--remove", str(folder)) if remove else ()),
        *(("--detach",) if detach else ()),
        *("--", *java, _SERVER, str(folder / "server.properties")),
    ]
    guard = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in the terminal is for us: we stop the broker when we are done with it
    )
    assert guard.stdout is not None  # noqa: S101  # a pipe, see above
    try:
        with guard.stdout as said:
            pid = said.readline().strip()
    except BaseException:  # Ctrl-C: nobody knows of a detached one yet, so nobody would end it
        guard.terminate()
        guard.wait()
        raise
    if not pid:
        guard.wait(_GRACE_S)
        raise BrokerNotReady(f"the broker's guard could not start it; the log is {log_file(folder)}")
    return RunningBroker(guard, int(pid), ports[0], folder)


def _not_ready(running: RunningBroker, cluster_id: str) -> str | None:
    """Waits until the broker answers as itself; returns None then, else what went wrong."""
    deadline = time.monotonic() + _READY_WITHIN_S
    admin: AdminClient | None = None
    while time.monotonic() < deadline:
        if not running.alive:
            return f"ended while starting (exit code {running.guard.returncode})"
        if admin is None and _accepts(running.port):
            # A client only now: made earlier, librdkafka would back off and tell the screen about refused connections.
            admin = AdminClient({"bootstrap.servers": f"{HOST}:{running.port}", "log_level": 0})
        if admin is not None and _answers(admin, cluster_id):
            return None
        time.sleep(0.02)
    return f"did not answer within {_READY_WITHIN_S:.0f} s"


def _answers(admin: AdminClient, cluster_id: str) -> bool:
    """Whether it is our broker that answers, not another program on a port that was taken meanwhile."""
    try:
        seen = admin.list_topics(timeout=2)
    except KafkaException:
        return False
    return bool(seen.brokers) and seen.cluster_id == cluster_id


def _accepts(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((HOST, port)) == 0


def _abandon(running: RunningBroker) -> None:
    """Ends a broker that did not come up, whether or not it is detached; its folder stays."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.jvm_pid, signal.SIGKILL)
    running.end(b"die")
