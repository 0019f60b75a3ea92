"""From values to models: a misspelt key gets the nearest name, wherever it stands."""

from __future__ import annotations

import difflib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.config.pipeline_files import FULL_PIPELINE, FULL_SOURCES

from lakestreams.config import load_pipeline
from lakestreams.config.models import PipelineFile, SourcesFile
from lakestreams.config.validate import keys_at
from lakestreams.errors import (
    TopologyInvalid,
    UnknownKey,
)


def _keys(model, data, path=()):
    """Every key of a model in the data, with its path (names the user chose are left out)."""
    for key, value in data.items() if isinstance(data, dict) else ():
        if key in keys_at(model, path):
            yield (*path, key)
        yield from _keys(model, value, (*path, key))


KEYS = [("sources", path) for path in _keys(SourcesFile, yaml.safe_load(FULL_SOURCES))] + [
    ("pipeline", path) for path in _keys(PipelineFile, yaml.safe_load(FULL_PIPELINE))
]


@given(st.sampled_from(KEYS), st.data())
@settings(max_examples=150)
def test_a_typo_gets_the_nearest_name(tmp_path_factory, key, data):
    file, path = key
    name = path[-1]
    position = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcxyz_"))
    typo = data.draw(st.sampled_from([
        name[:position] + name[position + 1 :],
        name[:position] + letter + name[position:],
        name[:position] + letter + name[position + 1 :],
        name[:position] + name[position + 1 : position + 2] + name[position] + name[position + 2 :],
    ]))  # fmt: skip
    model = SourcesFile if file == "sources" else PipelineFile
    known = keys_at(model, path[:-1])
    nearest = difflib.get_close_matches(typo, known, n=1, cutoff=0.5)
    if typo in known or not typo or not nearest:
        return
    texts = {"sources": yaml.safe_load(FULL_SOURCES), "pipeline": yaml.safe_load(FULL_PIPELINE)}
    part = texts[file]
    for step in path[:-1]:
        part = part[step]
    part[typo] = part.pop(name)
    folder = tmp_path_factory.mktemp("typo")
    (folder / "sources.yml").write_text(yaml.safe_dump(texts["sources"]))
    (folder / "p.yml").write_text(yaml.safe_dump(texts["pipeline"]))
    with pytest.raises(TopologyInvalid) as caught:
        load_pipeline(folder / "p.yml")
    unknown = [fault for fault in caught.value.faults if type(fault) is UnknownKey]
    assert len(unknown) == 1
    assert repr(nearest[0]) in unknown[0].hint


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("value: {text: page}", "value: {float: page}"), "conf/sources.yml:7", ["value.float", "known here: text"]),
        (("value: {text: page}", "value: {str: page}"), "conf/sources.yml:7", ["value.str", "known here: text"]),
        (("value: {text: page}", "value: {int: 5}"), "conf/sources.yml:7", ["value.int is 5", "quotes"]),
        (("enriched:\n", "int:\n"), "conf/enrichment.yml:4", ["left_joyn"]),
        (("enriched:\n", "'a[1]':\n"), "conf/enrichment.yml:4", ["left_joyn"]),
        (("page: PageViews.page", "str: 5"), "conf/enrichment.yml:5", ["select.str is 5", "quotes"]),
    ],
)
def test_names_that_types_of_python_have_are_names_like_others(load, change, place, words):
    changes = [change, *([("left_join", "left_joyn")] if "left_joyn" in words else [])]
    with pytest.raises(TopologyInvalid) as caught:
        load(*changes)
    said = [(str(fault.where), f"{fault.message} {fault.hint}") for fault in caught.value.faults]
    assert any(where.startswith(place) and all(word in text for word in words) for where, text in said), said


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("max_bad_share: true", "settings.max_bad_share is true; it should be a number"),
        ("max_offsets_per_trigger: false", "settings.max_offsets_per_trigger is false; it should be a whole number"),
        ("snapshot_every: true", "settings.snapshot_every is true; it should be a whole number"),
        ("max_bytes_per_batch: true", "settings.max_bytes_per_batch is true"),
        ("max_bytes_per_batch: 99999999999 GB", "too large"),
        ("idle_timeout: 1000001 days", "longer than 1,000,000 days"),
        ("bronze_retention: 1000001 days", "longer than 1,000,000 days"),
    ],
)
def test_a_setting_that_is_no_number_or_beyond_all(load, setting, words):
    with pytest.raises(TopologyInvalid) as caught:
        load(("steps:", f"settings: {{{setting}}}\nsteps:"))
    (fault,) = caught.value.faults
    assert words in fault.message
    assert str(fault.where).startswith("conf/enrichment.yml:2")


def test_true_is_no_count_of_a_step_nor_bound_of_an_invariant(load):
    pipeline = """\
pipeline: page_views
steps:
  more: {repartition: {from: PageViews, partitions: true}}
outputs:
  silver.more: {from: more, invariants: {fan_out: {at_most: true}}}
"""
    with pytest.raises(TopologyInvalid) as caught:
        load(pipeline=pipeline)
    assert {fault.message for fault in caught.value.faults} == {
        "repartition.partitions is true; it should be a whole number",
        "invariants.fan_out.at_most is true; it should be a whole number",
    }


TWO = """\
pipeline: page_views
steps:
  counted: {count: {from: PageViews, group_by: page}}
  counted_group_by: {filter: {from: PageViews, where: "true"}}
  enriched: {left_join: {left: PageViews, right: UserProfiles}}
  Enriched: {left_join: {left: PageViews, right: UserProfiles}}
outputs:
  silver.counted: {from: counted}
  enriched: {from: Enriched}
"""


def test_names_that_are_there_twice_have_the_line_of_the_second(load):
    sources = """\
kafka: {bootstrap_servers: "a:1"}
topics:
  PageViews: {kind: stream, key: {text: user}, value: {text: page}}
  UserProfiles: {kind: table, topic: PageViews, key: {text: user}, value: {text: region}}
"""
    with pytest.raises(TopologyInvalid) as caught:
        load(sources=sources, pipeline=TWO)
    assert {(fault.message, str(fault.where)) for fault in caught.value.faults} == {
        ("topic 'PageViews' is read by PageViews, UserProfiles", 'conf/sources.yml:4  source "UserProfiles"'),
        ("2 nodes are named 'counted_group_by': select_key, filter", 'conf/enrichment.yml:4  step "counted_group_by"'),
        ("2 nodes are named 'enriched': left_join, to_delta", 'conf/enrichment.yml:9  output "enriched"'),
    }
    with pytest.raises(TopologyInvalid) as caught:
        load(
            pipeline=TWO.replace("  enriched: {from", "  silver.enriched: {from").replace(
                "counted_group_by: {fi", "c: {fi"
            )
        )
    assert [(fault.message, str(fault.where)) for fault in caught.value.faults] == [
        ("steps that differ in capitals alone: enriched, Enriched", 'conf/enrichment.yml:6  step "Enriched"'),
    ]
