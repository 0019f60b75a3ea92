"""References to secrets and variables: what they resolve to, and that no text keeps a secret."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestreams.errors import SecretUnresolved
from lakestreams.kafka.options import KafkaOptions
from lakestreams.kafka.references import Secret, default_resolver


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
    assert default_resolver("kafka", "password") is None
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert default_resolver("kafka", "password") == "from-the-workspace"
    assert default_resolver("kafka", "other") is None


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
