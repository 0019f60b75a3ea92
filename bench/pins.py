"""Jars of those who are measured beside us: Kafka Streams in the version of the embedded broker, and Flink SQL.

Data only, as `lakestreams.local.pins`. What the broker has too is taken from its pins, so that it cannot differ.
"""

from __future__ import annotations

from typing import Final

from lakestreams.local.pins import BROKER_PINS

_OF_STREAMS: Final = (
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

_OF_FLINK: Final = tuple(name for name in _OF_STREAMS if "log4j" in name or "slf4j" in name or "lz4" in name)


def _of_broker(names: tuple[str, ...]) -> dict[str, str]:
    return {coordinate: digest for coordinate, digest in BROKER_PINS.items() if coordinate.rpartition(":")[0] in names}


STREAMS_PINS: Final[dict[str, str]] = {
    "org.apache.kafka:kafka-streams:4.3.0": "aa3a70c72cb04c72eabcf6d04762c3a3ca8522e93654eca9180e7877172433c4",
    "org.rocksdb:rocksdbjni:10.1.3": "e7f925287d9fe2574fb7c7a86f7facaa9b8ab602a2eed0e598bf633528121498",
} | _of_broker(_OF_STREAMS)

FLINK_PINS: Final[dict[str, str]] = {
    "com.esotericsoftware:kryo:5.6.2": "4e8b1d2f4977187af8a51a957329722dc1cdc56a7c94fbb5a791e82897629cff",
    "com.esotericsoftware:minlog:1.3.1": "5d4d632cfbebfe0a7644501cc303570b691406181bee65e9916b921c767d7c72",
    "com.esotericsoftware:reflectasm:1.11.9": "712b44da79a5b7f47a28cbfcb3d8ecfc872fae349c48aa4d3e38a5d69956afce",
    "com.google.code.findbugs:jsr305:1.3.9": "905721a0eea90a81534abb7ee6ef4ea2e5e645fa1def0a5cd88402df1b46c9ed",
    "com.ververica:frocksdbjni:8.10.0-ververica-1.0": "4e9bcd16a0232c7c8bc3779a2ff627be7c05c49826c1b2fa0bf7ba760f7cdcb7",
    "commons-cli:commons-cli:1.5.0": "bc8bb01fc0fad250385706e20f927ddcff6173f6339b387dc879237752567ac6",
    "commons-collections:commons-collections:3.2.2": "eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8",
    "commons-io:commons-io:2.15.1": "a58af12ee1b68cfd2ebb0c27caef164f084381a00ec81a48cc275fd7ea54e154",
    "org.apache.commons:commons-compress:1.26.0": "051aceb8bbcc62d0f5b2b8ac72c53767f9c59bfbd050151e65bef6f51c8ed9c9",
    "org.apache.commons:commons-lang3:3.18.0": "4eeeae8d20c078abb64b015ec158add383ac581571cddc45c68f0c9ae0230720",
    "org.apache.commons:commons-math3:3.6.1": "1e56d7b058d28b65abd256b8458e3885b674c1d588fa43cd7d1cbb9c7ef2b308",
    "org.apache.commons:commons-text:1.10.0": "770cd903fa7b604d1f7ef7ba17f84108667294b2b478be8ed1af3bffb4ae0018",
    "org.apache.flink:flink-annotations:2.3.0": "43eef36e172f5bc727a63c75347ba5cc4ceeb569f5daaf64421da248c224308a",
    "org.apache.flink:flink-cep:2.3.0": "a790b8e74fd3acd11bba2b73a85820469b7581d78c26a06d8f2cdff8097d9088",
    "org.apache.flink:flink-clients:2.3.0": "cbc643faca50912833941780ecec8bae23e23ac59b5e247035711302a12dcfbd",
    "org.apache.flink:flink-connector-datagen:2.3.0": "bb49eb8ce91b74bb4b1bd1549647b9acc3515650a01c2635c02356401e651f0c",
    "org.apache.flink:flink-connector-files:2.3.0": "b340e2d74b420ce539868b63513d28d93f5d3179475d1439353b6e129e66a027",
    "org.apache.flink:flink-core-api:2.3.0": "f9f3c9bdb4e0c0d0f15b3e2e4def4ee6cd56edfc55c9514b9004a1db4a51e351",
    "org.apache.flink:flink-core:2.3.0": "26b63fadf4808727cfbdc5271ee600144dacf15db8aab5a77c1e59005ea140aa",
    "org.apache.flink:flink-datastream-api:2.3.0": "b474b5a0e900a2757228ffd61e06ee4ecf252c3141421369911db9c91de51bce",
    "org.apache.flink:flink-datastream:2.3.0": "fea69ae88b05bbe00d1dd9e48bce720bbcd153c85c8f8fc80a9d22a4c2668621",
    "org.apache.flink:flink-file-sink-common:2.3.0": "59ec31a9b9ea1d78f62b505ac0c4f95d49eb43c457cdf21be13e43df077273b4",
    "org.apache.flink:flink-hadoop-fs:2.3.0": "87471693c2977cd956beec27e6b6c10af77009945f58e3954d730df0f8ea64c9",
    "org.apache.flink:flink-json:2.3.0": "0b09826d9aec0a4b0c27c3894dd7507dceef0dcaf15c2f557920655e5fc75cfe",
    "org.apache.flink:flink-metrics-core:2.3.0": "ea5f85e7490ab3363230f771edb78ea69856ac2eaf75e340db99c67f2c72b982",
    "org.apache.flink:flink-queryable-state-client-java:2.3.0": "b5d7bd033cb97b9bd812f5399d971668639a3f7604dd002ebd3733c2027cfcc2",
    "org.apache.flink:flink-rpc-akka-loader:2.3.0": "0d3c914a8f101250c3aad87c0781b25436bff679d2d1f46db769d4fe51fd326d",
    "org.apache.flink:flink-rpc-core:2.3.0": "050a2b087b0cea6553c9ed4df96c60c0cc5732177691fcece0d3872dd1837b85",
    "org.apache.flink:flink-runtime:2.3.0": "490e92d30cbd766e070f2bfc3c011b1830dc165894be2735a5585b8b9e76cb69",
    "org.apache.flink:flink-shaded-asm-9:9.9.1-21.0": "abd67048e87fb1306e7b9fce372af7bf9ca0bbf026ae263c817edf647c7f4159",
    "org.apache.flink:flink-shaded-guava:33.5.0-jre-21.0": "6644e530e098362a964467902b5ecf615aca63ca4424351b69e37108aa09b288",
    "org.apache.flink:flink-shaded-jackson:2.20.1-21.0": "696df51ebc642b2832db3b02517e60fee8d96fb1fe23f519c9897d02ff845ab2",
    "org.apache.flink:flink-shaded-netty:4.2.6.Final-21.0": "2b0272b90e844cfafa9fc378bb8cd9f0fb50199b819368211082ba46acf19184",
    "org.apache.flink:flink-shaded-zookeeper-3:3.7.2-21.0": "43e3e923c2666c9346dccf22a86a3be85113dfd2b5427d1da5a3881b8a0095f7",
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2": "5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
    "org.apache.flink:flink-sql-parquet:2.3.0": "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd",
    "org.apache.flink:flink-statebackend-rocksdb:2.3.0": "3357b5f33042d6b3a7ad784b7b54a72cb6de12e6c6a2df696bcd241e383d1b4e",
    "org.apache.flink:flink-streaming-java:2.3.0": "f0ab7c27603c2066bcc2e6075d09448341fd7fa4713fbe00d6a726acf5ea9ad9",
    "org.apache.flink:flink-table-api-bridge-base:2.3.0": "bbc35a81d847ed3b2587480615482898e34651ca2b26272bd53957c663070426",
    "org.apache.flink:flink-table-api-java-bridge:2.3.0": "c68ccd76f50d53d30cbaf73010ff3288716e1ff3d8b2dd4aecca5154a17cb997",
    "org.apache.flink:flink-table-api-java:2.3.0": "c0316b0368c1c79a70b94967e5057d5e3fa473a575da4624f35d71c0e05fec46",
    "org.apache.flink:flink-table-common:2.3.0": "75da42076ecb2c64735b46c837d2f7bd7c7d07e03a2cf59661ca2ca843db643b",
    "org.apache.flink:flink-table-planner-loader:2.3.0": "26d81818c2207cef34474d3cd21b31f0e6562cf8946da4b555ad1ecc945bd49b",
    "org.apache.flink:flink-table-runtime:2.3.0": "bd3861d3b567e43b1aa3ec3f79c0f105d317e2b03e3e8e111e335e13cc8eb95b",
    "org.javassist:javassist:3.24.0-GA": "aba81efa678b621203fb89aeff81d6f126f7a9dd709401e5609c42976684ae23",
    "org.objenesis:objenesis:3.4": "95488102feaf2e2858adf6b299353677dac6c15294006f8ed1c5556f8e3cd251",
    "org.roaringbitmap:RoaringBitmap:1.3.0": "73443a71a2e2401c7d518a487983539fcaf5f9652efbd178f929e7b6d36881d0",
    "org.snakeyaml:snakeyaml-engine:2.6": "2652199af40c9aa2f1782400d2dfbbf4e5226208c4e05ddd4059c3d6d9cd1505",
    "org.xerial.snappy:snappy-java:1.1.10.7": "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
} | _of_broker(_OF_FLINK)
"""Flink, its small cluster, its SQL, and what reads Kafka, writes Parquet and keeps state in RocksDB."""
