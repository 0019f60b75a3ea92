"""A real broker with a second listener, at which clients sign in by user and password (SASL, PLAIN)."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lakestreams.local import broker_process
from lakestreams.local.broker import Broker

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@contextlib.contextmanager
def secured_broker(users: Mapping[str, str], more: str = "") -> Iterator[tuple[Broker, str]]:
    """A broker, and the address at which these users sign in.

    Args:
        users: name to password.
        more: further lines of the broker's properties.
    """
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    address = f"SASL_PLAINTEXT://127.0.0.1:{port}"
    known = " ".join(f"user_{name}={quoted(password)}" for name, password in users.items())
    in_file = known.replace("\\", "\\\\")  # of Java's properties

    def write(folder: Path, ports: tuple[int, int]) -> None:
        plain(folder, ports)
        file = folder / "server.properties"
        text = re.sub(r"(?m)^((advertised\.)?listeners=.*)$", rf"\1,{address}", file.read_text(encoding="utf-8"))
        text += (
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
            f"sasl.enabled.mechanisms=PLAIN\n{more}"
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} required {in_file};\n"
        )
        file.write_text(text, encoding="utf-8")

    plain = broker_process._write_properties
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_process, "_write_properties", write)
        with Broker() as running:
            yield running, f"127.0.0.1:{port}"


def quoted(value: str) -> str:
    """A value as an entry of sasl.jaas.config writes it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
