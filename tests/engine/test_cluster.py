"""Which adapter looks at the cluster: decided by the options alone, so no test here needs Spark or Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from lakestreams.config.kafka import KafkaOptions
from lakestreams.engine.cluster import AdminCluster, Cluster, ProbeCluster, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connected(options: dict[str, str]) -> Cluster:
    """The adapter for these options; no session is needed to choose it."""
    return connect(cast("SparkSession", None), options, Path("scratch"))


def test_an_admin_client_takes_what_means_the_same_to_it() -> None:
    options = KafkaOptions("a:1", {"client.id": "me"}).spark_options()
    assert connected(options) == AdminCluster("a:1")


@pytest.mark.parametrize("option", ["security.protocol", "sasl.mechanism", "ssl.truststore.location"])
def test_other_options_of_kafkas_clients_are_left_to_sparks_source(option: str) -> None:
    values = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "ssl.truststore.location": "/a"}
    options = KafkaOptions("a:1", {option: values[option]}).spark_options()
    probe = connected(options)
    assert isinstance(probe, ProbeCluster)
    assert probe.options == options


def test_a_service_credential_is_left_to_sparks_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    options = KafkaOptions("a:1", {"client.id": "me"}, "kafka-prod").spark_options()
    probe = connected(options)
    assert isinstance(probe, ProbeCluster), "an admin client cannot sign in with it"
    assert probe.options["databricks.serviceCredential"] == "kafka-prod"
