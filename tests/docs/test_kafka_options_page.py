"""`docs/kafka-options.md`: each example loads, gives Spark the options that it should, and shows its secrets nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.docs.blocks import blocks

from lakestreams.config import load_pipeline
from lakestreams.config.compile import Pipeline
from lakestreams.config.schema import json_schema
from lakestreams.errors import LakestreamsError, SecretUnresolved, TopologyInvalid

PAGE = Path(__file__).parents[2] / "docs" / "kafka-options.md"
TOPICS = "topics:\n  Views: {kind: stream, key: {text: user}, value: {text: page}}\n"
PIPELINE = "pipeline: views\noutputs:\n  silver.views: {from: Views}\n"
OF_KAFKA = "org.apache.kafka.common.security."

CANARIES = {
    "LAKESTREAMS_SECRET_KAFKA_PASSWORD": "canary-of-scram-7",
    "LAKESTREAMS_SECRET_KAFKA_API_KEY": "canary-of-key-7",
    "LAKESTREAMS_SECRET_KAFKA_API_SECRET": "canary-of-plain-7",
    "LAKESTREAMS_SECRET_KAFKA_CLIENT_SECRET": "canary-of-oauth-7",
}
EXPECTED = {
    "SCRAM": {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f"{OF_KAFKA}scram.ScramLoginModule required "
        'username="lakestreams" password="canary-of-scram-7";',
    },
    "PLAIN": {
        "kafka.bootstrap.servers": "broker-1.example.com:9092,broker-2.example.com:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f"{OF_KAFKA}plain.PlainLoginModule required "
        'username="canary-of-key-7" password="canary-of-plain-7";',
    },
    "OAUTHBEARER": {
        "kafka.bootstrap.servers": "broker-1.example.com:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.example.com/oauth2/token",
        "kafka.sasl.login.callback.handler.class": f"{OF_KAFKA}oauthbearer.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.jaas.config": f"{OF_KAFKA}oauthbearer.OAuthBearerLoginModule required "
        'clientId="lakestreams" clientSecret="canary-of-oauth-7" scope="kafka";',
    },
    "A Unity Catalog service credential": {
        "kafka.bootstrap.servers": "my-hub.servicebus.windows.net:9093",
        "databricks.serviceCredential": "kafka-prod",
        "databricks.serviceCredential.scope": "https://my-hub.servicebus.windows.net/.default",
    },
}
WITH_SECRETS = [heading for heading, options in EXPECTED.items() if "canary" in str(options)]


def examples() -> dict[str, str]:
    """The page's YAML by the heading that it stands under."""
    sections = PAGE.read_text(encoding="utf-8").split("\n### ")[1:]
    headings = [section.partition("\n")[0] for section in sections]
    return dict(zip(headings, [block.text for block in blocks(PAGE) if block.language == "yaml"], strict=True))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    for name, canary in CANARIES.items():
        monkeypatch.setenv(name, canary)


def load(folder: Path, kafka: str) -> Pipeline:
    (folder / "sources.yml").write_text(kafka + TOPICS, encoding="utf-8")
    (folder / "views.yml").write_text(PIPELINE, encoding="utf-8")
    return load_pipeline(folder / "views.yml")


def on_databricks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")


def test_each_way_to_sign_in_has_an_example() -> None:
    assert list(examples()) == list(EXPECTED)


@pytest.mark.parametrize("heading", EXPECTED)
def test_an_example_gives_spark_these_options(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_databricks(monkeypatch)
    found = load(tmp_path, examples()[heading]).kafka.spark_options()
    assert found == EXPECTED[heading] | {"kafka.isolation.level": "read_committed"}
    known = jsonschema.Draft202012Validator(json_schema("sources"))
    known.validate(yaml.safe_load(examples()[heading] + TOPICS))


@pytest.mark.parametrize("heading", WITH_SECRETS)
def test_on_databricks_the_classes_have_a_prefix(heading: str, tmp_path: Path) -> None:
    shaded = examples()[heading].replace(OF_KAFKA, f"kafkashaded.{OF_KAFKA}")
    expected = {name: value.replace(OF_KAFKA, f"kafkashaded.{OF_KAFKA}") for name, value in EXPECTED[heading].items()}
    assert load(tmp_path, shaded).kafka.spark_options() == expected | {"kafka.isolation.level": "read_committed"}
    assert "kafkashaded." in expected["kafka.sasl.jaas.config"]


@pytest.mark.parametrize("heading", WITH_SECRETS)
def test_secrets_of_an_example_are_shown_nowhere(heading: str, tmp_path: Path) -> None:
    pipeline = load(tmp_path, examples()[heading])
    resolved = pipeline.kafka.spark_options()
    assert "canary" in str(resolved)
    shown = [f"{one!r} {one!s} {one}" for one in (pipeline, pipeline.kafka)]
    shown += [pipeline.text, pipeline.semantics, str(pickle.dumps(pipeline.kafka))]
    shown += [pipeline.kafka.redact(f"org.apache.kafka.common.KafkaException: refused with {resolved}")]
    assert not any("canary" in text for text in shown)


@pytest.mark.parametrize("heading", WITH_SECRETS)
def test_errors_of_an_example_show_no_secret(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[LakestreamsError] = []
    for wrong in ("  options:\n    client.idd: x\n", "  service_credential: kafka-prod\n  options:\n"):
        with pytest.raises(TopologyInvalid) as refused:
            load(tmp_path, examples()[heading].replace("  options:\n", wrong))
        told += refused.value.faults
    # the last of its secrets, so that any before it are resolved when the error is made
    pipeline = load(tmp_path, examples()[heading])
    scope, key = pipeline.kafka.secrets()[-1]
    monkeypatch.delenv(f"LAKESTREAMS_SECRET_{scope}_{key}".upper().replace("-", "_"))
    with pytest.raises(SecretUnresolved) as unresolved:
        pipeline.kafka.spark_options()
    told.append(unresolved.value)
    assert len(told) >= 4
    assert not any("canary" in f"{error!r} {error} {error.hint}" for error in told)


def test_outside_of_databricks_a_service_credential_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    pipeline = load(tmp_path, examples()["A Unity Catalog service credential"])
    with pytest.raises(LakestreamsError, match="exists on Databricks only") as refused:
        pipeline.kafka.spark_options()
    assert refused.value.code == "LS205"
