"""Each option that may be set, as an admin client has it or as the reason why there is none: no Spark, no broker."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakestreams.kafka.admin_options import SECRETS, TRANSLATED, OfSparkAlone, scrubbed, timeout_s, translated
from lakestreams.kafka.allowed_options import OPTIONS
from lakestreams.kafka.options import SERVICE_CREDENTIAL, KafkaOptions

SERVERS = {"bootstrap.servers": "a:1"}
PACKAGE = "org.apache.kafka.common.security"
ENDPOINT = "https://login.example.com/token"
ALONE = "Spark alone"
NOTHING: dict[str, Any] = {}  # an admin client can do without

# Every option of the allow-list by itself: what librdkafka is told, or that Spark's client alone understands it.
TABLE: dict[str, tuple[str, dict[str, Any] | str]] = {
    "batch.size": ("1", NOTHING),
    "buffer.memory": ("33554432", NOTHING),
    "max.request.size": ("2000000", NOTHING),
    "check.crcs": ("true", NOTHING),
    "client.dns.lookup": ("use_all_dns_ips", {"client.dns.lookup": "use_all_dns_ips"}),
    "client.id": ("me", {"client.id": "me"}),
    "client.rack": ("r", NOTHING),
    "connections.max.idle.ms": ("-1", {"connections.max.idle.ms": 0}),
    "default.api.timeout.ms": ("3000", NOTHING),
    "delivery.timeout.ms": ("1", NOTHING),
    "fetch.max.bytes": ("1", NOTHING),
    "fetch.max.wait.ms": ("1", NOTHING),
    "fetch.min.bytes": ("1", NOTHING),
    "heartbeat.interval.ms": ("1", NOTHING),
    "isolation.level": ("read_uncommitted", NOTHING),
    "max.partition.fetch.bytes": ("1", NOTHING),
    "max.poll.interval.ms": ("1", NOTHING),
    "max.poll.records": ("1", NOTHING),
    "metadata.max.age.ms": ("0", {"metadata.max.age.ms": 1}),
    "receive.buffer.bytes": ("-1", {"socket.receive.buffer.bytes": 0}),
    "reconnect.backoff.max.ms": ("100", {"reconnect.backoff.max.ms": 100}),
    "reconnect.backoff.ms": ("50", {"reconnect.backoff.ms": 50}),
    "request.timeout.ms": ("2000", NOTHING),
    "retry.backoff.max.ms": ("999999", {"retry.backoff.max.ms": 300_000}),
    "retry.backoff.ms": ("0", {"retry.backoff.ms": 1}),
    "sasl.jaas.config": (
        f'{PACKAGE}.plain.PlainLoginModule required username="u" password="p\\"q";',
        {"sasl.username": "u", "sasl.password": 'p"q'},
    ),
    "sasl.login.callback.handler.class": (f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler", NOTHING),
    "sasl.login.connect.timeout.ms": ("1", NOTHING),
    "sasl.login.read.timeout.ms": ("1", NOTHING),
    "sasl.login.retry.backoff.max.ms": ("1", NOTHING),
    "sasl.login.retry.backoff.ms": ("1", NOTHING),
    "sasl.mechanism": ("SCRAM-SHA-256", {"sasl.mechanism": "SCRAM-SHA-256"}),
    "sasl.oauthbearer.scope.claim.name": ("s", NOTHING),
    "sasl.oauthbearer.sub.claim.name": ("s", ALONE),
    "sasl.oauthbearer.token.endpoint.url": (ENDPOINT, NOTHING),  # counts with the login module for it alone
    "security.protocol": ("SASL_SSL", {"security.protocol": "SASL_SSL"}),
    "send.buffer.bytes": ("1", {"socket.send.buffer.bytes": 1}),
    "session.timeout.ms": ("1", NOTHING),
    "socket.connection.setup.timeout.max.ms": ("1", NOTHING),
    "socket.connection.setup.timeout.ms": ("10", {"socket.connection.setup.timeout.ms": 1_000}),
    "ssl.cipher.suites": ("TLS_AES_256_GCM_SHA384", ALONE),
    "ssl.enabled.protocols": ("TLSv1.3", ALONE),
    "ssl.endpoint.identification.algorithm": ("https", {"ssl.endpoint.identification.algorithm": "https"}),
    "ssl.key.password": ("p", NOTHING),
    "ssl.keystore.certificate.chain": ("PEM", {"ssl.certificate.pem": "PEM"}),
    "ssl.keystore.key": ("PEM", NOTHING),  # counts beside the certificates for it alone
    "ssl.keystore.location": ("/nowhere", ALONE),
    "ssl.keystore.password": ("p", NOTHING),
    "ssl.keystore.type": ("PEM", NOTHING),
    "ssl.protocol": ("TLSv1.3", NOTHING),
    "ssl.truststore.certificates": ("PEM", {"ssl.ca.pem": "PEM"}),
    "ssl.truststore.location": ("/nowhere", ALONE),
    "ssl.truststore.password": ("p", NOTHING),
    "ssl.truststore.type": ("PEM", NOTHING),
}


def spark(**options: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in {**SERVERS, **options}.items()}


def outcome(options: dict[str, str]) -> dict[str, Any] | str:
    try:
        return {name: value for name, value in translated(options).items() if name not in SERVERS}
    except OfSparkAlone:
        return ALONE


def test_the_table_has_every_option_that_may_be_set() -> None:
    assert set(TABLE) == set(OPTIONS)
    assert set(OPTIONS) >= TRANSLATED - set(SERVERS)


@pytest.mark.parametrize("name", TABLE)
def test_an_option_means_the_same_to_an_admin_client_or_is_of_spark_alone(name: str) -> None:
    value, expected = TABLE[name]
    assert outcome(spark(**{name: value})) == expected


@pytest.mark.parametrize("name", TABLE)
def test_librdkafka_knows_what_it_is_told(name: str) -> None:
    expected = TABLE[name][1]
    if isinstance(expected, str) or "PEM" in expected.values():
        pytest.skip("librdkafka is told nothing, or of a certificate that is none")
    AdminClient({"bootstrap.servers": "127.0.0.1:9", "log_level": 0, **expected, "security.protocol": "PLAINTEXT"})


@pytest.mark.parametrize("option", [SERVICE_CREDENTIAL, "kafka.some.new.option", "kafka.interceptor.classes"])
def test_what_is_not_known_is_of_spark_alone(option: str) -> None:
    with pytest.raises(OfSparkAlone, match=option.removeprefix("kafka.")):
        translated(spark() | {option: "x"})


# --- options that stand together -------------------------------------------------------------------------------------


def jaas(module: str, options: str) -> dict[str, str]:
    return {"sasl.jaas.config": f"{PACKAGE}.{module} required {options};"}


TOKEN = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": ENDPOINT}
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": ENDPOINT,
}
MODULE = "oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (jaas("scram.ScramLoginModule", 'username="u" password="p"'), {"sasl.username": "u", "sasl.password": "p"}),
        (jaas("scram.ScramLoginModule", 'username="u" password="p" tokenauth="false"'),
         {"sasl.username": "u", "sasl.password": "p"}),
        (jaas("scram.ScramLoginModule", 'username="u" password="p" tokenauth="true"'), ALONE),
        (TOKEN | jaas(MODULE, 'clientId="c" clientSecret="s"'), OIDC),
        (TOKEN | jaas(MODULE, 'clientId="c" clientSecret="s" scope="all" extension_a="1" extension_b="2"'),
         OIDC | {"sasl.oauthbearer.scope": "all", "sasl.oauthbearer.extensions": "a=1,b=2"}),
        (TOKEN | jaas(MODULE, 'clientId="c"'), ALONE),
        (TOKEN | jaas(MODULE, 'clientId="c" clientSecret="s" ssl.truststore.type="PEM"'), ALONE),
        (jaas(MODULE, 'clientId="c" clientSecret="s"'), ALONE),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}, NOTHING),
        ({"ssl.enabled.protocols": "TLSv1.3,TLSv1.2"}, NOTHING),
        ({"ssl.enabled.protocols": "TLSv1.2"}, ALONE),
        ({"ssl.keystore.certificate.chain": "C", "ssl.keystore.key": "K", "ssl.key.password": "p"},
         {"ssl.certificate.pem": "C", "ssl.key.pem": "K", "ssl.key.password": "p"}),
    ],
)  # fmt: skip
def test_options_that_stand_together(options: dict[str, str], expected: dict[str, Any] | str) -> None:
    assert outcome(spark(**options)) == expected


def test_a_login_module_of_databricks_is_one_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = f'kafkashaded.{PACKAGE}.plain.PlainLoginModule required username="u" password="p";'
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    assert outcome(spark(**{"sasl.jaas.config": entry})) == ALONE
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert outcome(spark(**{"sasl.jaas.config": entry})) == {"sasl.username": "u", "sasl.password": "p"}


# --- stores of certificates ------------------------------------------------------------------------------------------


def certificate() -> tuple[Any, Any]:
    """A certificate that signs itself, and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + dt.timedelta(days=36_500))
    return builder.sign(key, hashes.SHA256()), key


def pem(one: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return str(one.public_bytes(Encoding.PEM).decode())


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])  # keytool has made PKCS #12 under both names since Java 9
def test_a_pkcs12_truststore_is_told_as_pem(tmp_path: Path, kind: str) -> None:
    trusted, _ = certificate()
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    protected = BestAvailableEncryption(b"changeit")
    store = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(trusted, b"ca")], protected)
    (tmp_path / "trusted").write_bytes(store)
    options = {"ssl.truststore.location": str(tmp_path / "trusted"), "ssl.truststore.type": kind}
    right = spark(**options, **{"ssl.truststore.password": "changeit"})
    assert outcome(right) == {"ssl.ca.pem": pem(trusted)}
    AdminClient({**translated(right), "log_level": 0, "security.protocol": "SSL"})
    with pytest.raises(OfSparkAlone, match="cannot be read with its password"):
        translated(spark(**options, **{"ssl.truststore.password": "other"}))


def test_a_pkcs12_keystore_is_librdkafkas_own_format(tmp_path: Path) -> None:
    own, key = certificate()
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    file = tmp_path / "own.p12"
    file.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, own, None, BestAvailableEncryption(b"pw")))
    options = spark(
        **{"ssl.keystore.location": str(file), "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "pw"}
    )
    assert outcome(options) == {"ssl.keystore.location": str(file), "ssl.keystore.password": "pw"}
    AdminClient({**translated(options), "log_level": 0, "security.protocol": "SSL"})


def test_pem_files_are_told_by_their_names(tmp_path: Path) -> None:
    own, key = certificate()
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    file = tmp_path / "both.pem"
    file.write_text(pem(own) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    stores = {"ssl.truststore.location": str(file), "ssl.truststore.type": "PEM",
              "ssl.keystore.location": str(file), "ssl.keystore.type": "PEM"}  # fmt: skip
    expected = dict.fromkeys(("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"), str(file))
    assert outcome(spark(**stores)) == expected
    AdminClient({**translated(spark(**stores)), "log_level": 0, "security.protocol": "SSL"})


def test_a_jks_store_is_of_spark_alone(tmp_path: Path) -> None:
    (tmp_path / "jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    for what in ("truststore", "keystore"):
        with pytest.raises(OfSparkAlone, match=f"the {what} is no PKCS12 store"):
            translated(spark(**{f"ssl.{what}.location": str(tmp_path / "jks")}))


# --- secrets and times -----------------------------------------------------------------------------------------------


def test_no_reason_holds_a_secret(tmp_path: Path) -> None:
    secret = "canary-3kQ"
    (tmp_path / "none").write_text(secret)
    for options in (
        jaas("scram.ScramLoginModule", f'username="u" password="{secret}" tokenauth="true"'),
        jaas(MODULE, f'clientId="c" clientSecret="{secret}"'),
        {"ssl.truststore.location": str(tmp_path / "none"), "ssl.truststore.password": secret},
        {"ssl.cipher.suites": "x", "ssl.key.password": secret},
    ):
        with pytest.raises(OfSparkAlone) as why:
            translated(spark(**options))
        assert secret not in str(why.value)


def test_what_librdkafka_says_is_told_without_secrets() -> None:
    for name in SECRETS:
        assert scrubbed("it said canary-3kQ here", {name: "canary-3kQ"}) == "it said *** here"
    with pytest.raises(KafkaException) as refused:
        AdminClient(
            {"bootstrap.servers": "a:1", "log_level": 0, "security.protocol": "SSL", "ssl.key.pem": "canary-3kQ"}
        )
    assert "canary-3kQ" not in str(refused.value)


def test_time_is_what_the_options_give_and_no_more() -> None:
    assert timeout_s(spark(), 10) == 10
    assert timeout_s(spark(**{"request.timeout.ms": "2000", "default.api.timeout.ms": "3000"}), 10) == 2
    assert timeout_s(spark(**{"request.timeout.ms": "30000"}), 10) == 10
    assert timeout_s(spark(**{"request.timeout.ms": "1"}), 10) == 1


def test_what_a_pipeline_may_set_is_what_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the options themselves, whose secrets are references."""
    monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_PW", 'a "b" \\c')
    options = KafkaOptions("a:1", {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PACKAGE}.plain.PlainLoginModule required username="u" password="secret://kafka/pw";',
    })  # fmt: skip
    found = translated(options.spark_options())
    assert (found["sasl.username"], found["sasl.password"]) == ("u", 'a "b" \\c')
