"""Jars of Kafka Streams for `bench.kafka_streams`: the version of the embedded broker, and what it needs at run time.

Data only, as `lakestreams.local.pins`. What the broker has too is taken from its pins, so that it cannot differ.
"""

from __future__ import annotations

from typing import Final

from lakestreams.local.pins import BROKER_PINS

_SHARED: Final = (
    "at.yawk.lz4:lz4-java",
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "org.apache.kafka:kafka-clients",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j-impl",
    "org.slf4j:slf4j-api",
)

STREAMS_PINS: Final[dict[str, str]] = {
    "org.apache.kafka:kafka-streams:4.3.0": "aa3a70c72cb04c72eabcf6d04762c3a3ca8522e93654eca9180e7877172433c4",
    "org.rocksdb:rocksdbjni:10.1.3": "e7f925287d9fe2574fb7c7a86f7facaa9b8ab602a2eed0e598bf633528121498",
} | {coordinate: digest for coordinate, digest in BROKER_PINS.items() if coordinate.rpartition(":")[0] in _SHARED}
