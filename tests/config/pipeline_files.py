"""Two small configuration files, and large ones that use every key."""

from __future__ import annotations

import pytest

from lakestreams.errors import TopologyInvalid

SOURCES = """\
kafka:
  bootstrap_servers: ${KAFKA_BOOTSTRAP:-127.0.0.1:9092}
topics:
  PageViews:
    kind: stream
    key: {text: user}
    value: {text: page}
  UserProfiles: {kind: table, key: {text: user}, value: {text: region}}
"""
PIPELINE = """\
pipeline: page_views
steps:
  enriched:
    left_join: {left: PageViews, right: UserProfiles}
    select: {page: PageViews.page}
outputs:
  silver.enriched: {from: enriched}
"""


def faults_of(load, *changes, **texts):
    with pytest.raises(TopologyInvalid) as caught:
        load(*changes, **texts)
    return caught.value.faults


S, P = "conf/sources.yml", "conf/enrichment.yml"
FULL_SOURCES = """\
kafka:
  bootstrap_servers: "a:1"
  options: {client.id: x}
  service_credential: kafka-prod
  service_credential_scope: https://my-hub.servicebus.windows.net/.default
topics:
  PageViews:
    kind: stream
    topic: page-views
    key: {text: user}
    value: {json: "ms bigint, page string"}
    event_time: {field: ms, fallback: false}
    max_future: 2 hours
    null_values: ignore
    expectations: {keys_not_null: drop}
  UserProfiles: {kind: table, key: {text: user}, value: {text: region}}
  Counts: {kind: table, key: {registry_json: "a int"}, value: {long: n}}
"""
FULL_PIPELINE = """\
pipeline: page_views
settings: {max_offsets_per_trigger: 10, max_bytes_per_batch: 64 MB, max_bad_share: 0.5, snapshot_every: 2}
outputs:
  silver.enriched: {from: only_home, mode: append, cluster_by: [user]}
  silver.all: {from: plain, partition_by: [page]}
steps:
  only_home: {filter: {from: enriched, where: "page = '/home'"}}
  enriched:
    left_join: {left: mapped, right: eu, co_partitioning: warn}
    select: {page: mapped.page, region: "coalesce(eu.region, '<unknown>')"}
  eu: {filter: {from: UserProfiles, where: region like 'e%'}}
  mapped: {map_values: {from: PageViews, select: {page: upper(page)}}}
  rekeyed: {select_key: {from: PageViews, select: {page: page}}}
  plain: {join: {left: rekeyed, right: UserProfiles, co_partitioning: off}}
"""
