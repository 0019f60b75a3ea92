"""Kafka options: the allow-list, login modules, secrets by reference, scrubbing."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import re
import sys
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestreams.errors import KafkaOptionRefused, SecretUnresolved, TopologyInvalid
from lakestreams.kafka import options as kafka
from lakestreams.kafka.options import KafkaOptions, Secret

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
    (HANDLER, "com.evil." + kafka.CALLBACK_HANDLERS[0]),
    (HANDLER, kafka.CALLBACK_HANDLERS[0] + "X"),
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


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HONEST_ENTRIES = [
    f'{PLAIN} required username="u" password="${{PW}}";',
    f"{PLAIN} required username=u password=${{PW}};",
    f"{PLAIN} required username='u' password='secret://kafka/password' ;",
    f'{SCRAM} required\n  username="u"\n  password="${{PW}}"\n  tokenauth="true";\n',
    f'{SCRAM} required username="a b;c=d \\"e\\" // f" password="${{PW}}" tokenauth=true;',
    f'{OAUTH} required clientId="c" clientSecret="${{PW}}" scope="https://x/.default" extension_logicalCluster="lkc-1";',
    f'{OAUTH} required clientId="c" clientSecret="${{PW}}" ssl.truststore.location="/ca.pem" ssl.truststore.type="PEM";',
    f'{OAUTH} required clientId="${{ID}}" clientSecret="${{PW}}" ssl.protocol="TLSv1.3" ssl.key.password="${{PW}}";',
]


@pytest.mark.parametrize("entry", HONEST_ENTRIES)
def test_kafkas_own_login_modules_pass(entry, monkeypatch):
    monkeypatch.setenv("PW", "pass-word")
    monkeypatch.setenv("ID", "me")
    monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_PASSWORD", "pass-word")
    for written in (entry, entry.replace("org.apache", "kafkashaded.org.apache")):
        assert KafkaOptions("a:1", {"sasl.jaas.config": written}).spark_options()


# names of options that Kafka's clients, or its login modules, know, and that load classes, read files, run programs or
# ask another server; with options of servers and of other modules, and those of the test handler
NAMES_OF_NO_MODULE = [
    "ssl.engine.factory.class", "ssl.provider", "security.providers", "ssl.trustmanager.algorithm",
    "ssl.keymanager.algorithm", "ssl.secure.random.implementation", "config.providers", "config.providers.x.class",
    "config.providers.x.param.allowed.paths", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.jwt.retriever.class", "interceptor.classes", "metric.reporters", "user.provider.url",
    "userProvider", "keyTab", "useKeyTab", "serviceName", "refreshKrb5Config", "user_admin", "passwordFile",
    "unsecuredLoginStringClaim_sub", "unsecuredLoginListClaim_scope", "extension_", "extension_a.b", "extension_auth-x",
    "USERNAME", "Password", "username.x", "awsProfileName", "awsRoleArn", "group.principal.mapping",
    "ssl.truststore.certificates", "ssl.keystore.key",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES_OF_NO_MODULE)
@pytest.mark.parametrize("module", kafka.LOGIN_MODULES)
def test_what_an_entry_may_set_is_listed_for_each_login_module(module, name, monkeypatch):
    entry = f'{module} required {name}="x";'
    with pytest.raises(KafkaOptionRefused) as caught:
        KafkaOptions("a:1", {"sasl.jaas.config": entry})
    assert name in caught.value.message
    assert module in caught.value.message
    monkeypatch.setenv("ENTRY", entry)
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions("a:1", {"sasl.jaas.config": "${ENTRY}"}).spark_options()


@pytest.mark.parametrize(
    ("module", "name"), [(PLAIN, "clientId"), (PLAIN, "tokenauth"), (SCRAM, "scope"), (OAUTH, "username"), (OAUTH, "password")]
)  # fmt: skip
def test_the_options_of_one_login_module_are_none_of_another(module, name):
    with pytest.raises(KafkaOptionRefused, match=name):
        KafkaOptions("a:1", {"sasl.jaas.config": f'{module} required {name}="${{PW}}";'})


# entries that Kafka's clients, which read them by Java's StreamTokenizer, would read in another way than they look
TWO_READINGS = [
    f'{PLAIN} required username="u\nssl.engine.factory.class=com.evil.F x=" password="${{PW}}";',
    f'{PLAIN} required username="u\rx=y z=" password="${{PW}}";',
    f'{PLAIN} required username="u\0" password="${{PW}}";',
    f'{PLAIN} required username=//u\n password="${{PW}}";',
    f'{PLAIN} required username=/*u password="${{PW}}" x=*/y;',
    f'{PLAIN} required username=u\u00a0password="${{PW}}";',
    f'{PLAIN}\u2003required username=u password="${{PW}}";',
    f'{PLAIN} required user\u0430ame=u password="${{PW}}";',
    f'{PLAIN} required username="\\u0041" password="${{PW}}";',
    f'{PLAIN} required username="\\101" password="${{PW}}";',
    f'{PLAIN} required username=1u password="${{PW}}";',
    f'{PLAIN} required username=a:b password="${{PW}}";',
    f'{PLAIN} required username="a" username="b" password="${{PW}}";',
    f'{PLAIN} required username="a"password="${{PW}}";',
    f'{PLAIN} required username= password="${{PW}}";',
    f'{PLAIN} required "username"="a" password="${{PW}}";',
]


@pytest.mark.parametrize("entry", TWO_READINGS)
def test_an_entry_that_reads_in_two_ways_is_refused(entry, monkeypatch):
    monkeypatch.setenv("PW", "pass-word")
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions("a:1", {"sasl.jaas.config": entry})
    monkeypatch.setenv("ENTRY", entry.replace("${PW}", "pass-word").replace("\0", "\x01"))
    with pytest.raises(KafkaOptionRefused) as caught:
        KafkaOptions("a:1", {"sasl.jaas.config": "${ENTRY}"}).spark_options()
    assert "pass-word" not in str(caught.value)


PROVIDED = ["${file:/etc/passwd:root}", "${dir:/etc:passwd}", "${env:PATH}", "a${vault:x:y}b", "${a.b}", "${", "$${x:y}",
            "${A:-${file:/etc/passwd:root}}", "${A:-$}{file:/etc/passwd:root}"]  # fmt: skip


@pytest.mark.parametrize("value", PROVIDED)
@pytest.mark.parametrize("name", ["client.id", "ssl.key.password", "ssl.truststore.certificates", "sasl.jaas.config"])
def test_values_of_config_providers_are_refused(name, value, monkeypatch):
    given = f'{PLAIN} required username="{value}" password="${{PW}}";' if name == "sasl.jaas.config" else value
    with pytest.raises(KafkaOptionRefused):
        KafkaOptions("a:1", {name: given})
    # from the environment as well, where only the value of the reference could have it
    monkeypatch.setenv("GIVEN", given.replace("${PW}", "pass-word"))
    if re.search(r"\$\{[^}]*:", given):
        with pytest.raises(KafkaOptionRefused) as caught:
            KafkaOptions("a:1", {name: "${GIVEN}"}).spark_options()
        assert "passwd" not in caught.value.message


@pytest.mark.parametrize("handler", kafka.CALLBACK_HANDLERS)
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


def test_a_whole_entry_may_be_a_secret_and_is_checked_when_it_is_there(monkeypatch):
    options = KafkaOptions("a:1", {"sasl.jaas.config": "${JAAS}"})
    monkeypatch.setenv("JAAS", f'{SCRAM} required username="u" password="pass-word";')
    assert "pass-word" in options.spark_options()["kafka.sasl.jaas.config"]
    assert options.redact("pass-word") == "***"
    monkeypatch.setenv("JAAS", "com.sun.security.auth.module.JndiLoginModule required;")
    with pytest.raises(KafkaOptionRefused, match="JndiLoginModule"):
        options.spark_options()


@pytest.mark.parametrize(
    "password",
    [
        'a"; com.evil.Module required x="',
        "a\\",
        'a\\" b',
        "it's",
        "a;b",
        "a\nb",
        "a\r\n",
        "a\tb",
        "\\n",
        "//",
        "/*",
        "é\u2028",
    ],
)
def test_a_password_cannot_leave_its_quotes(password):
    options = KafkaOptions("a:1", {"sasl.jaas.config": JAAS}, resolver=lambda _scope, _key: password)
    entry = options.spark_options()["kafka.sasl.jaas.config"]
    assert dict(kafka._jaas_options(entry.split("required", 1)[1].rsplit(";", 1)[0])) == {
        "username": "u",
        "password": password,
    }
    assert kafka._jaas_fault(entry) is None
    assert password not in options.redact(f"x {password} x {entry} x")


def test_a_resolved_value_is_checked_too(monkeypatch):
    options = KafkaOptions(
        "a:1", {"sasl.oauthbearer.token.endpoint.url": "${URL}", HANDLER: kafka.CALLBACK_HANDLERS[0]}
    )
    monkeypatch.setenv("URL", "file:///etc/passwd")
    with pytest.raises(KafkaOptionRefused, match=r"token\.endpoint"):
        options.spark_options()


def test_what_is_not_there_is_said(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(SecretUnresolved, match="NOT_THERE"):
        KafkaOptions("a:1", {"client.id": "${NOT_THERE}"}).spark_options()
    with pytest.raises(SecretUnresolved) as caught:
        KafkaOptions("a:1", {"ssl.key.password": "secret://my-scope/my.key"}).spark_options()
    assert "LAKESTREAMS_SECRET_MY_SCOPE_MY_KEY" in caught.value.hint
    assert KafkaOptions("a:1", {"client.id": "${NOT_THERE:-me}"}).spark_options()["kafka.client.id"] == "me"


def test_databricks_secrets(monkeypatch):
    def get(scope: str, key: str) -> str:
        if key != "password":
            raise RuntimeError(scope)
        return "from-the-workspace"

    runtime = SimpleNamespace(dbutils=SimpleNamespace(secrets=SimpleNamespace(get=get)))
    monkeypatch.setitem(sys.modules, "databricks", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "databricks.sdk", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", runtime)
    assert kafka.default_resolver("kafka", "password") is None
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert kafka.default_resolver("kafka", "password") == "from-the-workspace"
    assert kafka.default_resolver("kafka", "other") is None


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
    with pytest.raises(KafkaOptionRefused, match="'kafka-prod' is known on Databricks only") as caught:
        options.spark_options()
    assert "--no-broker" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["security.protocol", *(name for name in sorted(kafka.OPTIONS) if name.startswith("sasl."))]
)
def test_what_databricks_sets_is_refused_beside_a_service_credential(name):
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS,
        HANDLER: kafka.CALLBACK_HANDLERS[0],
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    }
    with pytest.raises(KafkaOptionRefused) as caught:
        KafkaOptions("a:1", {name: values.get(name, "1")}, "kafka-prod")
    assert f"the option {name} is refused beside service_credential" in caught.value.message
    assert caught.value.hint == "leave out security.protocol and sasl.*, or service_credential"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "a'b", "`a`", "a\n", "kafka-prod\n", "é", "x" * 256])
def test_the_name_of_a_service_credential_is_plain(name):
    with pytest.raises(KafkaOptionRefused, match="no credential's name"):
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


# --- secrets -------------------------------------------------------------------------------------------------------


def test_a_secret_prints_as_stars():
    secret = Secret("hunter-22")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret, repr([secret]), f"{secret!r}"]  # noqa: UP031
    assert not any("hunter" in text for text in shown)
    assert secret == Secret("hunter-22") != Secret("x")
    assert len({secret, Secret("hunter-22")}) == 1
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=6, max_size=30))
@settings(max_examples=100)
def test_every_spelling_of_a_secret_is_scrubbed(value):
    options = KafkaOptions("a:1", {"ssl.key.password": "secret://a/b"}, resolver=lambda _scope, _key: value)
    raw = value.encode()
    for spelt in (value, json.dumps(value)[1:-1], quote(value), quote(value, safe=""), quote_plus(value), raw.hex(),
                  base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):  # fmt: skip
        assert spelt not in options.redact(f"<<{spelt}>>") or set(spelt) <= {"*"}


@pytest.mark.parametrize("user", ["u", "ab", "abc", "user"])
def test_a_secret_inside_longer_base64_is_scrubbed(user):
    options = KafkaOptions(
        "a:1", {"ssl.key.password": "secret://a/b"}, resolver=lambda _scope, _key: "correct-horse-battery"
    )
    text = base64.b64encode(f"{user}:correct-horse-battery:x".encode()).decode()
    assert "***" in options.redact(text)
    assert len(options.redact(text)) < len(text) / 2
