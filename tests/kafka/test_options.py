"""Kafka options: the allow-list, values that are refused, service credentials, secrets resolved at the last moment."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from lakestreams.errors import KafkaOptionRefused, TopologyInvalid
from lakestreams.kafka.allowed_options import CALLBACK_HANDLERS, OPTIONS
from lakestreams.kafka.options import KafkaOptions

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JAAS = SCRAM + ' required username="u" password="secret://kafka/password";'

HANDLER = "sasl.login.callback.handler.class"

REFUSED = {
    "interceptor.classes": "com.evil.Interceptor",
    "key.deserializer": "com.evil.D",
    "value.deserializer": "com.evil.D",
    "partition.assignment.strategy": "com.evil.A",
    "metric.reporters": "com.evil.R",
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "ssl.engine.factory.class": "com.evil.F",
    "ssl.provider": "Evil",
    "ssl.trustmanager.algorithm": "Insecure",
    "security.providers": "com.evil.P",
    "sasl.login.class": "com.evil.L",
    "sasl.login.callback.handler.class": "com.evil.H",
    "sasl.client.callback.handler.class": "com.evil.H",
    "sasl.oauthbearer.jwt.retriever.class": "com.evil.J",
    "sasl.oauthbearer.assertion.file": "/etc/passwd",
    "sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd",
    "sasl.kerberos.kinit.cmd": "/bin/evil",
    "sasl.kerberos.service.name": "x",
    "group.id": "mine",
    "auto.offset.reset": "latest",
    "enable.auto.commit": "true",
    "bootstrap.servers": "a:1",
    "kafka.client.id": "x",
    "clientid": "x",
    "CLIENT.ID": "x",
    "": "x",
    "client.id ": "x",
    "client.id\n": "x",
}
REFUSED_VALUES = [
    ("security.protocol", "NONE"),
    ("sasl.mechanism", "GSSAPI"),
    ("isolation.level", "none"),
    ("ssl.endpoint.identification.algorithm", ""),
    ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd"),
    ("sasl.oauthbearer.token.endpoint.url", "http://idp.example/token"),
    ("sasl.oauthbearer.token.endpoint.url", "https://idp.example/token"),  # nobody asks it without a handler
    (HANDLER, "com.evil." + CALLBACK_HANDLERS[0]),
    (HANDLER, CALLBACK_HANDLERS[0] + "X"),
    (HANDLER, "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"),
    ("fetch.max.bytes", "many"),
    ("client.id", "a\nb"),
    ("client.id", "a\n"),
    ("ssl.truststore.location", "relative/path"),
    ("ssl.truststore.location", "/a\n/b"),
    ("ssl.key.password", "written-out"),
    ("ssl.key.password", "x${KEY}"),
    ("ssl.key.password", "${KEY:-written-out}"),
    ("ssl.keystore.key", "-----BEGIN"),
    ("sasl.jaas.config", ""),
    ("sasl.jaas.config", "nonsense"),
    ("sasl.jaas.config", 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil";'),
    ("sasl.jaas.config", 'com.sun.security.auth.module.LdapLoginModule required userProvider="ldap://evil";'),
    ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;"),
    ("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModuleX required;"),
    ("sasl.jaas.config", "evil.org.apache.kafka.common.security.scram.ScramLoginModule required;"),
    ("sasl.jaas.config", f'{SCRAM} required username="u" password="written-out";'),
    ("sasl.jaas.config", f"{SCRAM} required username='u' password='written-out';"),
    ("sasl.jaas.config", f"{SCRAM} required username=u password=written-out;"),
    ("sasl.jaas.config", f'{SCRAM} required password="${{PW:-written-out}}";'),
    ("sasl.jaas.config", f"{SCRAM} required; com.sun.security.auth.module.JndiLoginModule required;"),
    ("sasl.jaas.config", f"{SCRAM} required"),
    ("sasl.jaas.config", f"/* x */ {SCRAM} required;"),
    ("sasl.jaas.config", "${MODULE} required;"),
    (
        "sasl.jaas.config",
        'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="out";',
    ),
]


@pytest.fixture
def _secrets(monkeypatch):
    monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_PASSWORD", "hunter-22")


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_is_not_listed_is_refused(name):
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions("a:1", {name: REFUSED[name]})


@pytest.mark.parametrize(("name", "value"), REFUSED_VALUES)
def test_a_value_is_refused_and_a_secret_not_quoted(name, value):
    with pytest.raises(KafkaOptionRefused) as caught:
        KafkaOptions("a:1", {name: value})
    assert "written-out" not in str(caught.value)


PROVIDED = ["${file:/etc/passwd:root}", "${dir:/etc:passwd}", "${env:PATH}", "a${vault:x:y}b", "${a.b}", "${", "$${x:y}",
            "${A:-${file:/etc/passwd:root}}", "${A:-$}{file:/etc/passwd:root}"]  # fmt: skip


@pytest.mark.parametrize("value", PROVIDED)
@pytest.mark.parametrize("name", ["client.id", "ssl.key.password", "ssl.truststore.certificates", "sasl.jaas.config"])
def test_values_of_config_providers_are_refused(name, value, monkeypatch):
    given = f'{SCRAM} required username="{value}" password="${{PW}}";' if name == "sasl.jaas.config" else value
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions("a:1", {name: given})
    # from the environment as well, where only the value of the reference could have it
    monkeypatch.setenv("GIVEN", given.replace("${PW}", "pass-word"))
    if re.search(r"\$\{[^}]*:", given):
        with pytest.raises(KafkaOptionRefused) as caught:
            KafkaOptions("a:1", {name: "${GIVEN}"}).spark_options()
        assert "passwd" not in caught.value.message


@pytest.mark.parametrize("handler", CALLBACK_HANDLERS)
def test_kafkas_own_handler_of_token_endpoints_passes(handler, monkeypatch):
    options = {"sasl.oauthbearer.token.endpoint.url": "https://idp.example/token", HANDLER: "${HANDLER}"}
    monkeypatch.setenv("HANDLER", handler)
    assert KafkaOptions("a:1", options).spark_options()[f"kafka.{HANDLER}"] == handler
    monkeypatch.setenv("HANDLER", "com.evil.H")
    with pytest.raises(KafkaOptionRefused, match=r"handler\.class"):
        KafkaOptions("a:1", options).spark_options()


@pytest.mark.parametrize("servers", ["a:9092", "a:1,b:2", "a:1, b:2", "[::1]:9092", "broker-1.example.com:9092"])
def test_servers_pass(servers):
    assert KafkaOptions(servers).spark_options()["kafka.bootstrap.servers"] == servers


@pytest.mark.parametrize("servers", ["", "a", "a:", "a:b", "a:1,", "http://a:1", "a:1;b:2", "a:1\n", "user@a:1"])
def test_servers_are_refused(servers):
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions(servers)


def test_all_faults_at_once():
    with pytest.raises(TopologyInvalid) as caught:
        KafkaOptions("a", {"group.id": "x", "client.idd": "y"})
    assert len(caught.value.faults) == 3
    assert "did you mean client.id?" in str(caught.value)


def test_the_defaults_and_the_prefix():
    assert KafkaOptions("a:1", {"client.id": "me"}).spark_options() == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.client.id": "me",
    }
    assert (
        KafkaOptions("a:1", {"isolation.level": "read_uncommitted"}).spark_options()["kafka.isolation.level"]
        == "read_uncommitted"
    )


@pytest.mark.usefixtures("_secrets")
def test_a_secret_is_resolved_at_the_last_moment_only():
    options = KafkaOptions("a:1", {"sasl.jaas.config": JAAS})
    assert 'password="hunter-22"' in options.spark_options()["kafka.sasl.jaas.config"]
    copies = [options, copy.deepcopy(options), pickle.loads(pickle.dumps(options))]
    for one in copies:
        assert one == options
        assert "hunter" not in repr(one)
    assert b"hunter" not in pickle.dumps(options)


def test_a_resolved_value_is_checked_too(monkeypatch):
    options = KafkaOptions("a:1", {"sasl.oauthbearer.token.endpoint.url": "${URL}", HANDLER: CALLBACK_HANDLERS[0]})
    monkeypatch.setenv("URL", "file:///etc/passwd")
    with pytest.raises(KafkaOptionRefused, match=r"token\.endpoint"):
        options.spark_options()


# --- service credentials -------------------------------------------------------------------------------------------


SCOPE = "https://my-hub.servicebus.windows.net/.default"


@pytest.mark.parametrize("scope", [None, SCOPE])
def test_a_service_credential_is_an_option_of_sparks_source(monkeypatch, scope):
    options = KafkaOptions("a:1", {"client.id": "me"}, "kafka-prod", scope)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    expected = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.client.id": "me",
        "databricks.serviceCredential": "kafka-prod",
    }
    assert options.spark_options() == expected | ({"databricks.serviceCredential.scope": SCOPE} if scope else {})
    assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options.with_scope("mine") == options
    assert options != KafkaOptions("a:1", {"client.id": "me"}, "kafka-dev", scope)


def test_a_service_credential_is_known_on_databricks_only(monkeypatch):
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    options = KafkaOptions("a:1", service_credential="kafka-prod")
    with pytest.raises(KafkaOptionRefused, match="'kafka-prod' exists on Databricks only") as caught:
        options.spark_options()
    assert "--no-broker" in caught.value.hint


@pytest.mark.parametrize("name", ["security.protocol", *(name for name in sorted(OPTIONS) if name.startswith("sasl."))])
def test_what_databricks_sets_is_refused_beside_a_service_credential(name):
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS,
        HANDLER: CALLBACK_HANDLERS[0],
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    }
    with pytest.raises(KafkaOptionRefused) as caught:
        KafkaOptions("a:1", {name: values.get(name, "1")}, "kafka-prod")
    assert f"the option {name} is refused together with service_credential" in caught.value.message
    assert caught.value.hint == "leave out security.protocol and sasl.*, or service_credential"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "a'b", "`a`", "a\n", "kafka-prod\n", "é", "x" * 256])
def test_the_name_of_a_service_credential_is_plain(name):
    with pytest.raises(KafkaOptionRefused, match="not a valid credential name"):
        KafkaOptions("a:1", service_credential=name)


@pytest.mark.parametrize(
    ("name", "scope", "said"),
    [
        (None, SCOPE, "without service_credential"),
        ("kafka-prod", "file:///etc/passwd", "not an https:// address"),
        ("kafka-prod", "", "not an https:// address"),
        ("kafka-prod", SCOPE + "\n", "not an https:// address"),
    ],
)
def test_the_scope_of_a_service_credential(name, scope, said):
    with pytest.raises(KafkaOptionRefused, match=said):
        KafkaOptions("a:1", {}, name, scope)


@pytest.mark.parametrize("name", ["databricks.serviceCredential", "kafka.databricks.serviceCredential"])
def test_a_service_credential_is_no_option_of_kafkas_clients(name):
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions("a:1", {name: "kafka-prod"})
