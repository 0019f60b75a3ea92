"""A registry behind TLS: whom the client trusts, and the certificate that it shows."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.registry.fake import Fake
from tests.registry.serving import serving

from lakestreams.errors import LakestreamsError
from lakestreams.registry import Registry, RegistryOptions, Schema

NOW = dt.datetime.now(dt.timezone.utc)  # noqa: UP017 - `dt.UTC` reads worse beside datetime


def made(folder: Path, name: str, *, password: bytes | None = None) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(raw)
    return paths


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Fake]:
    """A server that wants to see the client's certificate."""
    own, key = made(tmp_path, "server")
    client, _ = made(tmp_path, "client", password=b"open sesame")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.load_verify_locations(client)
    context.verify_mode = ssl.CERT_REQUIRED
    found = Fake()
    found.socket = context.wrap_socket(found.socket, server_side=True)
    found.says("GET /schemas/ids/7", (200, {"schema": '"long"'}))
    with serving(found):
        yield found


def test_who_trusts_whom(server: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"https://localhost:{server.server_port}"
    few = {"max.retries": "0"}
    trusting = {**few, "ssl.ca.location": str(tmp_path / "server.pem")}
    showing = {
        **trusting,
        "ssl.certificate.location": str(tmp_path / "client.pem"),
        "ssl.key.location": str(tmp_path / "client.key"),
        "ssl.key.password": "${KEY_PASSWORD}",
    }
    monkeypatch.setenv("KEY_PASSWORD", "open sesame")
    assert Registry(RegistryOptions(url, showing)).by_id(7) == Schema('"long"')
    with pytest.raises(LakestreamsError, match=r"LS309|LS308"):  # the server hangs up, sooner or later
        Registry(RegistryOptions(url, trusting)).by_id(7)
    with pytest.raises(LakestreamsError, match=r"LS309(?s:.*)CERTIFICATE_VERIFY_FAILED|self.signed"):
        Registry(RegistryOptions(url, few)).by_id(7)
    monkeypatch.setenv("KEY_PASSWORD", "sesame")
    with pytest.raises(LakestreamsError, match=r"ssl\.\* cannot be used"):
        Registry(RegistryOptions(url, showing))
