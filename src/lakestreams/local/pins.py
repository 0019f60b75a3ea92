"""Which jars, exactly: group:artifact:version (and ending:classifier where it is no plain jar) and the SHA-256 of the file. Data only; `jars.py` resolves them.

To raise a pin, change it here and put in the sum that the error message of `python -m lakestreams.local.jars` shows, after
having compared it with the one that the project publishes.
"""

from __future__ import annotations

from typing import Final

# What Delta and the Kafka source need and pyspark does not carry, and files without a process each (`session.py`). The token provider is 4.0.0 in every set: later ones
# cannot be resolved, and this one works with all (its class is only loaded, we use no delegation tokens).
SPARK_PINS: Final[dict[str, dict[str, str]]] = {
    "4.2.0": {
        "io.delta:delta-spark_4.2_2.13:4.4.0": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
        "io.delta:delta-storage:4.4.0": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        "io.delta:delta-kernel-api:4.4.0": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
        "io.delta:delta-kernel-defaults:4.4.0": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
        "io.delta:delta-kernel-unitycatalog:4.4.0": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
        "io.unitycatalog:unitycatalog-client:0.6.0": "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0": "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        "org.apache.kafka:kafka-clients:3.9.2": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
        "org.apache.commons:commons-pool2:2.13.1": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0": "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
    },
    "4.0.2": {
        "io.delta:delta-spark_2.13:4.0.1": "a1e76860b19fe1e6b205a4ea7a9099a2f9575d39bb71d49b3e679b299d0efb91",
        "io.delta:delta-storage:4.0.1": "ecc42c5aaa51c423312d9e4e48aa4a12b34740bf2c37de0e8f279277ec3d12e4",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.2": "faa232c017b0cb4480c14643eb82abf6d0cac4b4d032059bf999b9246d045eb6",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        "org.apache.kafka:kafka-clients:3.9.1": "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
        "org.apache.commons:commons-pool2:2.12.0": "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0": "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
    },
}

# Apache Kafka 4.3.0 without Connect, the REST servers, JAAS and everything else that a broker on loopback never loads.
BROKER_PINS: Final[dict[str, str]] = {
    "at.yawk.lz4:lz4-java:1.10.2": "252dabd586d22149a31661a8afc1a50747714eb1a298bd4a6e780c8c91a13866",
    "com.fasterxml.jackson.core:jackson-annotations:2.21": "53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b",
    "com.fasterxml.jackson.core:jackson-core:2.21.2": "12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b",
    "com.fasterxml.jackson.core:jackson-databind:2.21.2": "8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849",
    "com.github.luben:zstd-jni:1.5.6-10": "b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df",
    "com.google.re2j:re2j:1.8": "7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.6": "0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994",
    "com.yammer.metrics:metrics-core:2.2.0": "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c",
    "commons-validator:commons-validator:1.10.1": "ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa",
    "net.sf.jopt-simple:jopt-simple:5.0.4": "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
    "net.sourceforge.argparse4j:argparse4j:0.7.0": "65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56",
    "org.apache.kafka:kafka-clients:4.3.0": "97a5b492d4ad658fd2dfba969fa0e403c2e38c971fb1e083da4e391471925fc1",
    "org.apache.kafka:kafka-coordinator-common:4.3.0": "245f2d1ebe0559efb7fc7615cda06f5c25b47e98d137a354a05cc50687821244",
    "org.apache.kafka:kafka-group-coordinator-api:4.3.0": "c78dbb49e91bb0f735dc03d07a66f1cb1c0e1db4bf6c2d9a57811c744d93ca5b",
    "org.apache.kafka:kafka-group-coordinator:4.3.0": "98bf277fca9facf134a7599a5c13dc146b9fbaf5ce961dd412914d3ff9b44356",
    "org.apache.kafka:kafka-metadata:4.3.0": "4cf62c7bea64ff57ccd150ac457b02216e28801472caefd436377cbedd29a1c5",
    "org.apache.kafka:kafka-raft:4.3.0": "7517424a299da3e9fcdeccd52058b3ca6e95a1ed7feb9a32c3e12836d02cff8d",
    "org.apache.kafka:kafka-server-common:4.3.0": "f272a83ad222b2747635239cdb2601c0a3f83fc874b4a1adf104afb8daf66133",
    "org.apache.kafka:kafka-server:4.3.0": "4e94e517a4b1c86ee1d41401d0c394556880abba515c7ca4f4eb229a4673422c",
    "org.apache.kafka:kafka-share-coordinator:4.3.0": "3848748f35dfe8b3b8e39cc546d129e586b5e039f0d10459d4b0bf05cefdecaa",
    "org.apache.kafka:kafka-storage-api:4.3.0": "dd4e05a693dd9e546545a70cff6c36b4125fefd067df6126541e23156df315e6",
    "org.apache.kafka:kafka-storage:4.3.0": "9e13c0cd8de0bf1fc24cad5d498b21c6683815e771a7148c43fac79b6a515c79",
    "org.apache.kafka:kafka-transaction-coordinator:4.3.0": "1f6cb1ebf449a6772ca22f7470b206a1845bd172fe64131848c80be7c13aa096",
    "org.apache.kafka:kafka_2.13:4.3.0": "e3669cb733f657689f71cba145af51022f29cebba81d8bf69699274b46c70da8",
    "org.apache.logging.log4j:log4j-api:2.25.4": "c4b642a7f047275215de117e0e3847eb2c7711d84a0aa7433e7b3c096daf341d",
    "org.apache.logging.log4j:log4j-core:2.25.4": "10fee2c0485d54fa44ee75d314f6295508f7b932281873db61a91b88073200e6",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4": "7ac68a0afcc83d54f48d116d79370a43f0a2a6b71b5c1d6dda943bb6a95ddbaa",
    "org.hdrhistogram:HdrHistogram:2.2.2": "22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8",
    "org.pcollections:pcollections:4.0.2": "2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef",
    "org.scala-lang:scala-library:2.13.18": "4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0",
    "org.slf4j:slf4j-api:1.7.36": "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
    "org.xerial.snappy:snappy-java:1.1.10.7": "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
}

# A schema registry with Confluent's REST interface; later versions want a newer Java.
REGISTRY_PINS: Final[dict[str, str]] = {
    "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all": "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
}
