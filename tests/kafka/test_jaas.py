"""Entries of login modules: what passes, what reads in two ways, what a password cannot do."""

from __future__ import annotations

import pytest

from lakestreams.errors import KafkaOptionRefused
from lakestreams.kafka import jaas
from lakestreams.kafka.allowed_options import LOGIN_MODULES
from lakestreams.kafka.options import KafkaOptions

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
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
@pytest.mark.parametrize("module", LOGIN_MODULES)
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
    options = KafkaOptions(
        "a:1",
        {"sasl.jaas.config": f'{SCRAM} required username="u" password="secret://kafka/password";'},
        resolver=lambda _scope, _key: password,
    )
    entry = options.spark_options()["kafka.sasl.jaas.config"]
    assert dict(jaas.options_in(entry.split("required", 1)[1].rsplit(";", 1)[0])) == {
        "username": "u",
        "password": password,
    }
    assert jaas.fault(entry) is None
    assert password not in options.redact(f"x {password} x {entry} x")
