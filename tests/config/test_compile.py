"""From files to a pipeline: the same as in Python, and every fault at once, with its place."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from tests.config.pipeline_files import FULL_PIPELINE, FULL_SOURCES, PIPELINE, P, S, faults_of

from lakestreams import ConnectJson, DebeziumAvro, DebeziumJson, Json, MaxwellJson, RegistryJson, StreamsBuilder, Text
from lakestreams.config import load_pipeline
from lakestreams.config.formats import FormatSpec
from lakestreams.errors import (
    ConfigInvalid,
    ConfigUnreadable,
    DuplicateName,
    ExpressionRefused,
    InvalidDuration,
    InvalidFormat,
    InvalidName,
    InvalidOption,
    KafkaOptionRefused,
    SecretUnresolved,
    TopologyInvalid,
    UnknownColumn,
    UnknownKey,
    UnknownReference,
    WrongKind,
)

SELECT = "{page: PageViews.page}"
# what is changed, the class of the fault, its place, words of message and hint
FAULTS = [
    # spelling
    (("left_join:", "left_joni:"), UnknownKey, f'{P}:4  step "enriched"', ["left_joni", "'left_join'"]),
    (("pipeline:", "pipelin:"), UnknownKey, f"{P}:1", ["pipelin", "'pipeline'"]),
    (("{from: enriched}", "{form: enriched}"), UnknownKey, f'{P}:7  output "silver.enriched"', ["form", "'from'"]),
    (("    kind: stream", "    knd: stream"), UnknownKey, f'{S}:5  source "PageViews"', ["knd", "'kind'"]),
    (("key: {text: user}\n", "key: {txt: user}\n"), UnknownKey, f'{S}:6  source "PageViews"', ["txt", "'text'"]),
    (("topics:", "zzz: 1\ntopics:"), UnknownKey, f"{S}:3", ["zzz", "kafka, registry, topics"]),
    # values
    (
        ("kind: stream", "kind: straem"),
        ConfigInvalid,
        f'{S}:5  source "PageViews"',
        ["kind is 'straem'", "stream, table"],
    ),
    (("kind: stream", "kind:"), ConfigInvalid, f'{S}:5  source "PageViews"', ["kind is empty"]),
    (("    kind: stream\n", ""), ConfigInvalid, f'{S}:4  source "PageViews"', ["'kind' is missing"]),
    (("value: {text: page}", "value: {}"), ConfigInvalid, f'{S}:7  source "PageViews"', ["exactly one of text, long"]),
    (
        ("value: {text: page}", "value: {text: a, long: b}"),
        ConfigInvalid,
        f'{S}:7  source "PageViews"',
        ["text and long"],
    ),
    (
        ("value: {text: page}", "value: {text: page, fields: {page: the page}}"),
        ConfigInvalid,
        f'{S}:7  source "PageViews"',
        ["fields: only json, registry_json, connect_json, debezium_json"],
    ),
    (
        ("value: {text: page}", "value: {json: page string, fields: {pgae: the page}}"),
        InvalidFormat,
        f'{S}:7  source "PageViews"',
        ["names 'pgae'", "did you mean 'page'"],
    ),
    (("value: {text: page}", "value: text"), ConfigInvalid, f'{S}:7  source "PageViews"', ["mapping of keys"]),
    (
        ("value: {text: page}", "value: {text: 5}"),
        ConfigInvalid,
        f'{S}:7  source "PageViews"',
        ["value.text is 5", "text"],
    ),
    (("value: {text: page}", "value: {text: a-b}"), InvalidFormat, f'{S}:7  source "PageViews"', ["a-b"]),
    (("value: {text: page}", "value: {json: ms nothing}"), InvalidFormat, f'{S}:7  source "PageViews"', ["ms nothing"]),
    (
        ("value: {text: page}", "value: {text: page}\n    max_future: soon"),
        InvalidDuration,
        f'{S}:8  source "PageViews"',
        ["soon"],
    ),
    (
        ("value: {text: page}", "value: {text: page}\n    event_time: ms"),
        UnknownColumn,
        f'{S}:8  source "PageViews"',
        ["'ms'"],
    ),
    (
        ("value: {text: page}", "value: {text: page}\n    event_time: page"),
        InvalidOption,
        f'{S}:8  source "PageViews"',
        ["string"],
    ),
    (
        ("value: {text: page}", "value: {text: page}\n    event_time: {feld: ms}"),
        UnknownKey,
        f'{S}:8  source "PageViews"',
        ["event_time.feld", "'field'"],
    ),
    (
        ("value: {text: region}", "value: {text: region}, null_values: ignore"),
        ConfigInvalid,
        f'{S}:8  source "UserProfiles"',
        ["a table has none"],
    ),
    (
        ("value: {text: page}", "value: {text: page}\n    expectations: {keys_not_null: maybe}"),
        ConfigInvalid,
        f'{S}:8  source "PageViews"',
        ["off, warn, drop, fail"],
    ),
    (
        ("value: {text: page}", "value: {text: page}\n    topic: a b"),
        InvalidName,
        f'{S}:8  source "PageViews"',
        ["'a b'"],
    ),
    (("steps:", "settings: {max_bad_share: 2}\nsteps:"), ConfigInvalid, f"{P}:2", ["at most 1"]),
    (("steps:", "settings: {snapshot_every: 0}\nsteps:"), ConfigInvalid, f"{P}:2", ["at least 1"]),
    (("steps:", "settings: {snapshot_every: often}\nsteps:"), ConfigInvalid, f"{P}:2", ["'often'", "a whole number"]),
    (("steps:", "settings: {bronze_retention: 6M}\nsteps:"), InvalidDuration, f"{P}:2", ["'6M'", "months"]),
    (("steps:", "settings: {bronze_retention: 6m}\nsteps:"), InvalidDuration, f"{P}:2", ["'6m'", "an hour"]),
    (("steps:", "settings: {max_bytes_per_batch: 7 XB}\nsteps:"), ConfigInvalid, f"{P}:2", ["'7 XB'", "256 MB"]),
    (("steps:", "settings: {max_bytes_per_batch: 0}\nsteps:"), ConfigInvalid, f"{P}:2", ["0 is no size"]),
    (("pipeline: page_views", "pipeline: page-views"), InvalidName, f"{P}:1", ["page-views"]),
    (("silver.enriched:", "a.b.c.d:"), InvalidName, f'{P}:7  output "a.b.c.d"', ["a.b.c.d"]),
    (
        ("{from: enriched}", "{from: enriched, mode: upsert}"),
        ConfigInvalid,
        f'{P}:7  output "silver.enriched"',
        ["append, merge, changes"],
    ),
    (
        ("{from: enriched}", "{from: enriched, cluster_by: user}"),
        ConfigInvalid,
        f'{P}:7  output "silver.enriched"',
        ["a list"],
    ),
    (
        ("{from: enriched}", "{from: enriched, cluster_by: [a], partition_by: [b]}"),
        InvalidOption,
        f'{P}:7  output "silver.enriched"',
        ["exclude"],
    ),
    (
        ("right: UserProfiles}", "right: UserProfiles, co_partitioning: no}"),
        ConfigInvalid,
        f'{P}:4  step "enriched"',
        ["require, warn, off"],
    ),
    # steps
    (
        ("    left_join: {left: PageViews, right: UserProfiles}\n", ""),
        ConfigInvalid,
        f'{P}:3  step "enriched"',
        ["exactly one of join"],
    ),
    (
        ("    select:", "    join: {left: PageViews, right: UserProfiles}\n    select:"),
        ConfigInvalid,
        f'{P}:3  step "enriched"',
        ["together"],
    ),
    (
        ("left_join: {left: PageViews, right: UserProfiles}", "filter: {from: PageViews, where: page = 'a'}"),
        ConfigInvalid,
        f'{P}:3  step "enriched"',
        ["select goes next to"],
    ),
    (
        ("left: PageViews,", "left: PageView,"),
        UnknownReference,
        f'{P}:4  step "enriched"',
        ["left_join.left", "did you mean 'PageViews'"],
    ),
    (
        ("{from: enriched}", "{from: enrich}"),
        UnknownReference,
        f'{P}:7  output "silver.enriched"',
        ["'enrich'", "'enriched'"],
    ),
    (
        ("steps:", "steps:\n  k: {select_key: {from: UserProfiles, select: {a: region}}}"),
        WrongKind,
        f'{P}:3  step "k"',
        ["a table"],
    ),
    (
        ("steps:", "steps:\n  PageViews: {filter: {from: UserProfiles, where: region = 'eu'}}"),
        DuplicateName,
        f'{P}:3  step "PageViews"',
        ["PageViews"],
    ),
    (
        ("left: PageViews,", "left: enriched,"),
        ConfigInvalid,
        f'{P}:3  step "enriched"',
        ["circle: enriched -> enriched"],
    ),
    ((SELECT, "{page: now()}"), ExpressionRefused, f'{P}:5  step "enriched"  select.page', ["now"]),
    # topics read twice
    (
        ("value: {text: region}", "value: {text: region}, topic: PageViews"),
        DuplicateName,
        f'{S}:8  source "UserProfiles"',
        ["PageViews"],
    ),
    # kafka
    (("topics:", "  options: {group.id: x}\ntopics:"), KafkaOptionRefused, f"{S}:3", ["group.id"]),
    (("topics:", "  options: {client.id: [x]}\ntopics:"), ConfigInvalid, f"{S}:3", ["kafka.options.client.id"]),
    (("${KAFKA_BOOTSTRAP:-127.0.0.1:9092}", "nowhere"), KafkaOptionRefused, f"{S}:2", ["host:port"]),
    (("${KAFKA_BOOTSTRAP:-127.0.0.1:9092}", "${NOT_THERE_AT_ALL}"), SecretUnresolved, f"{S}:2", ["NOT_THERE_AT_ALL"]),
    (("topics:", "  service_credential: a b\ntopics:"), KafkaOptionRefused, f"{S}:3", ["'a b'", "kafka-prod"]),
    (("topics:", "  service_credential: ''\ntopics:"), KafkaOptionRefused, f"{S}:3", ["not a valid credential name"]),
    (("topics:", "  service_credential: 5\ntopics:"), ConfigInvalid, f"{S}:3", ["kafka.service_credential"]),
    (
        ("topics:", "  service_credential: '${NOT_THERE_AT_ALL}'\ntopics:"),
        SecretUnresolved,
        f"{S}:3",
        ["NOT_THERE_AT_ALL"],
    ),
    (
        ("topics:", "  service_credential_scope: https://a/.default\ntopics:"),
        KafkaOptionRefused,
        f"{S}:3",
        ["without service_credential"],
    ),
    (
        ("topics:", "  service_credential: a\n  options:\n    client.id: x\n    sasl.mechanism: PLAIN\ntopics:"),
        KafkaOptionRefused,
        f"{S}:6",
        ["sasl.mechanism is refused together with service_credential", "leave out"],
    ),
    (
        ("topics:", "  options: {sasl.oauthbearer.token.endpoint.url: 'https://idp/token'}\ntopics:"),
        KafkaOptionRefused,
        f"{S}:3",
        ["without sasl.login.callback.handler.class", "OAuthBearerLoginCallbackHandler"],
    ),
    # YAML
    (
        ("kind: stream", "kind: stream\n    kind: table"),
        ConfigInvalid,
        f'{S}:6  source "PageViews"',
        ["twice, first in line 5"],
    ),
    (("kind: stream", "kind: !!python/name:os.system"), ConfigInvalid, f'{S}:5  source "PageViews"', ["tag"]),
    (("    kind: stream", "    <<: {kind: stream}"), ConfigInvalid, f"{S}:5", ["merge keys"]),
]


@pytest.mark.parametrize(("change", "kind", "where", "words"), FAULTS, ids=[fault[0][1][:50] for fault in FAULTS])
def test_a_fault_is_named_with_its_place(load, monkeypatch, change, kind, where, words):
    monkeypatch.delenv("NOT_THERE_AT_ALL", raising=False)
    faults = faults_of(load, change)
    matching = [fault for fault in faults if type(fault) is kind]
    assert matching, [str(fault) for fault in faults]
    said = [(fault.where, f"{fault.message} {fault.hint}") for fault in matching]
    assert any(place.startswith(where) and all(word in text for word in words) for place, text in said), said
    for fault in faults:
        assert "validation error" not in str(fault)
        assert "Input should" not in str(fault)


def test_one_fault_is_one_fault(load):
    """Where one thing is wrong, nothing else is said to be."""
    noisy = {}
    for change, kind, _, _ in FAULTS:
        faults = faults_of(load, change)
        if len(faults) != 1:
            noisy[change[1]] = [str(fault) for fault in faults]
        assert kind
    # the key with the refused YAML is missing then
    assert list(noisy) == ["kind: !!python/name:os.system", "    <<: {kind: stream}"], noisy


def test_all_faults_of_both_files_at_once(load):
    faults = faults_of(
        load,
        ("kind: stream", "kind: straem"),
        ("{text: region}", "{text: 5}"),
        ("left_join: {left", "left_join: {lft"),
        ("{from: enriched}", "{from: enriched, mode: upsert, cluster_by: 5}\n  silver.other: {from: nothing}"),
        ("pipeline:", "topic: x\npipeline:"),
    )
    assert [(type(fault), fault.where.split("  ")[0]) for fault in faults] == [
        (UnknownKey, f"{P}:1"),
        (UnknownKey, f"{P}:5"),
        (ConfigInvalid, f"{P}:8"),
        (ConfigInvalid, f"{P}:8"),
        (UnknownReference, f"{P}:9"),
        (ConfigInvalid, f"{S}:5"),
        (ConfigInvalid, f"{S}:8"),
    ]


def test_a_printed_error_says_where_what_and_what_to_do(load):
    with pytest.raises(TopologyInvalid) as caught:
        load(("left_join:", "left_jion:"))
    text = str(caught.value)
    assert text.startswith('LS202 UNKNOWN_KEY   conf/enrichment.yml:4  step "enriched"\n')
    assert "Fix: did you mean 'left_join'?" in text


def test_missing_files_are_named_together(tmp_path):
    with pytest.raises(TopologyInvalid) as caught:
        load_pipeline(tmp_path / "a.yml")
    assert [type(fault) for fault in caught.value.faults] == [ConfigUnreadable, ConfigUnreadable]


def test_the_environment_is_read(load, monkeypatch):
    monkeypatch.setenv("TOPIC", "views-eu")
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "broker:1")
    monkeypatch.setenv("EVERY", "3")
    pipeline = load(
        ("kind: stream", "kind: stream\n    topic: ${TOPIC}"),
        ("steps:", "settings: {snapshot_every: '${EVERY}', max_bad_share: '${SHARE:-0.5}'}\nsteps:"),
    )
    assert pipeline.topology.sources[0].topic == "views-eu"
    assert pipeline.kafka.bootstrap_servers == "broker:1"
    assert (pipeline.settings.snapshot_every, pipeline.settings.max_bad_share) == (3, 0.5)


def test_secrets_stay_references_everywhere(load, monkeypatch):
    monkeypatch.setenv("KEY_PASSWORD", "hunter-22")
    pipeline = load(("topics:", "  options: {ssl.key.password: '${KEY_PASSWORD}', request.timeout.ms: 5000}\ntopics:"))
    assert pipeline.kafka.options["ssl.key.password"] == "${KEY_PASSWORD}"
    assert pipeline.kafka.spark_options()["kafka.ssl.key.password"] == "hunter-22"
    assert pipeline.kafka.options["request.timeout.ms"] == "5000"
    assert "hunter" not in repr(pipeline) + pipeline.text


def test_a_service_credential_may_come_from_the_environment(load, monkeypatch):
    monkeypatch.setenv("KAFKA_CREDENTIAL", "kafka-prod")
    change = "  service_credential: ${KAFKA_CREDENTIAL}\n  service_credential_scope: https://a/.default\ntopics:"
    pipeline = load(("topics:", change))
    assert (pipeline.kafka.service_credential, pipeline.kafka.service_credential_scope) == (
        "kafka-prod",
        "https://a/.default",
    )


def test_the_text_is_canonical(load, monkeypatch):
    plain = load().text
    assert load(("pipeline: page_views", "# a comment\npipeline:   page_views")).text == plain
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "another:1")
    assert load().text == plain
    assert load(("PageViews.page", "PageViews.user")).text != plain
    assert json.loads(plain)["pipeline"]["pipeline"] == "page_views"


def _shape(topology):
    """Everything of the nodes that is not a function."""
    functions = ("mapper", "predicate", "joiner")
    return [
        (type(node), {name: value if name not in functions else value is not None for name, value in vars(node).items()
                      if name not in ("parent", "left", "right")}, [parent.name for parent in node.parents])
        for node in topology.nodes
    ]  # fmt: skip


def test_yaml_and_python_give_the_same_topology(load):
    from lakestreams import EventTime

    builder = StreamsBuilder("page_views")
    # sources in the order of their first use
    views = builder.stream(
        "page-views", key=Text("user"), value=Json("ms bigint, page string"), name="PageViews",
        event_time=EventTime("ms", fallback=False), max_future="2 hours", null_values="ignore", keys_not_null="drop",
    )  # fmt: skip
    users = builder.table("UserProfiles", key=Text("user"), value=Text("region"))
    eu = users.filter(lambda user: user.region.like("e%"), name="eu")
    mapped = views.map_values(lambda view: {"page": view.page}, name="mapped")
    enriched = mapped.left_join(eu, lambda view, _: {"page": view.page}, name="enriched", co_partitioning="warn")
    home = enriched.filter(lambda row: row.page == "/home", name="only_home")
    plain = views.select_key(lambda view: {"page": view.page}, name="rekeyed").join(
        users, name="plain", co_partitioning="off"
    )
    home.to_delta("silver.enriched", cluster_by=["user"])
    plain.to_delta("silver.all", partition_by=["page"])
    made = load(sources=FULL_SOURCES, pipeline=FULL_PIPELINE).topology
    named = {node.name: node for node in made.nodes}
    assert sorted(map(repr, _shape(made))) == sorted(map(repr, _shape(builder.build())))
    position = {name: index for index, name in enumerate(named)}
    assert all(position[parent.name] < position[node.name] for node in made.nodes for parent in node.parents)
    assert [source.name for source in made.sources] == ["UserProfiles", "PageViews"]


@pytest.mark.parametrize(
    ("key", "made"),
    [
        ("json", Json),
        ("registry_json", RegistryJson),
        ("connect_json", ConnectJson),
        ("debezium_json", DebeziumJson),
        ("maxwell_json", MaxwellJson),
    ],
)
def test_fields_in_yaml_are_those_of_python(load, key, made):
    fields = "{page: the page, city: [address, post-code]}"
    loaded = load(("value: {text: page}", f"value: {{{key}: 'page string, city string', fields: {fields}}}"))
    fields = {"page": "the page", "city": ("address", "post-code")}
    assert loaded.topology.sources[0].value == made("page string, city string", fields)
    assert 'page string from "the page", city string from ["address", "post-code"]' in loaded.topology.describe()


def test_documents_behind_a_registry_are_declared_by_their_columns():
    given = {"debezium_avro": "page string, city string", "fields": {"city": ["address", "city"]}}
    made = DebeziumAvro("page string, city string", {"city": ["address", "city"]})
    assert FormatSpec.model_validate(given).build() == made


def test_the_minimal_pipeline_is_the_same_text(load):
    builder = StreamsBuilder("page_views")
    views = builder.stream("PageViews", key=Text("user"), value=Text("page"))
    users = builder.table("UserProfiles", key=Text("user"), value=Text("region"))
    views.left_join(users, lambda view, _: {"page": view.page}, name="enriched").to_delta("silver.enriched")
    assert load().topology.describe() == builder.build().describe()


def test_loading_twice_gives_equal_topologies(load):
    assert load().topology == load().topology
    assert load().topology != load(("PageViews.page", "PageViews.user")).topology


def test_steps_without_outputs_of_python_functions(load, monkeypatch):
    module = ModuleType("my_topologies")

    def declares(builder):
        builder.stream("T", key=Text("k"), value=Text("v")).to_delta("t")

    def returns():
        builder = StreamsBuilder("page_views")
        declares(builder)
        return builder.build()

    def other():
        builder = StreamsBuilder("other")
        declares(builder)
        return builder.build()

    def empty(builder):
        assert builder.name == "page_views"

    def breaks():
        msg = "no luck"
        raise RuntimeError(msg)

    for function in (declares, returns, other, empty, breaks):
        setattr(module, function.__name__, function)
    module.nothing = lambda: None
    module.value = 5
    monkeypatch.setitem(sys.modules, "my_topologies", module)

    def of(reference):
        return "pipeline: page_views\ntopology: " + reference + "\n"

    assert load(pipeline=of("my_topologies:declares")).topology == load(pipeline=of("my_topologies:returns")).topology
    expected = {
        "my_topologies:other": (ConfigInvalid, "'other'"),
        "my_topologies:empty": (None, "no output"),
        "my_topologies:breaks": (ConfigInvalid, "RuntimeError: no luck"),
        "my_topologies:nothing": (ConfigInvalid, "NoneType"),
        "my_topologies:value": (UnknownReference, "no function"),
        "my_topologies:missing": (UnknownReference, "no function"),
        "no_such_module_here:f": (UnknownReference, "cannot be imported"),
        "os.system": (ConfigInvalid, "module:function"),
        "a:b.c()": (ConfigInvalid, "module:function"),
    }
    for reference, (kind, words) in expected.items():
        (fault,) = faults_of(load, pipeline=of(reference))
        assert kind is None or type(fault) is kind
        assert words in fault.message
        assert fault.where == f"{P}:2"
    (both,) = faults_of(load, pipeline=PIPELINE + "topology: a:b\n")
    assert "takes the place of steps and outputs" in both.message
    (neither,) = faults_of(load, pipeline="pipeline: page_views\n")
    assert "outputs" in neither.message


def test_a_circle_is_drawn(load):
    steps = "  a: {map_values: {from: c, select: {x: x}}}\n  b: {map_values: {from: a, select: {x: x}}}\n  c: {filter: {from: b, where: x}}\n"
    (fault,) = faults_of(load, ("steps:\n", f"steps:\n{steps}"))
    assert "a -> c -> b -> a" in fault.message


def test_projections_report_all_their_columns(spark, load):
    from lakestreams.topology.fields import Fields

    made = load((SELECT, "{a: user, b: nothing, c: UserProfiles.nix, d: upper(page)}")).topology.joins[0].joiner
    faults = []
    sides = (
        Fields("PageViews", {"page": "l.page", "user": "l.user"}, faults, "here"),
        Fields("UserProfiles", {"region": "r.region", "user": "r.user"}, faults, "here"),
    )
    with pytest.raises(TopologyInvalid) as caught:
        made(*sides)
    assert len(caught.value.faults) == 2
    assert [fault.message for fault in faults] == ["UserProfiles has no column 'nix'"]


def test_a_topology_in_python_needs_no_topics_in_the_sources_file(load, monkeypatch):
    def build(builder):
        builder.stream("Views", key=Text("user"), value=Text("page")).to_delta("silver.views")

    module = ModuleType("without_topics")
    module.__dict__["build"] = build
    monkeypatch.setitem(sys.modules, "without_topics", module)
    kafka = "kafka: {bootstrap_servers: 127.0.0.1:9092}\n"
    pipeline = load(sources=kafka, pipeline="pipeline: seen\ntopology: without_topics:build\n")
    assert [source.topic for source in pipeline.topology.sources] == ["Views"]
    with pytest.raises(TopologyInvalid) as caught:
        load(sources=kafka)
    assert {fault.hint for fault in caught.value.faults} == {
        "declare PageViews under topics in the sources' file",
        "declare UserProfiles under topics in the sources' file",
    }
