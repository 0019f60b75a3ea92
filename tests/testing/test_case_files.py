"""Files of cases: found in folders, read, and every fault told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from lakestreams.config import schema
from lakestreams.errors import (
    ConfigInvalid,
    ConfigUnreadable,
    DuplicateName,
    InvalidDuration,
    TopologyInvalid,
    UnknownKey,
    UnknownReference,
    WrongKind,
)
from lakestreams.testing.case_files import find, load

ROOT = Path(__file__).parents[2]
SOURCES = """\
kafka: {bootstrap_servers: localhost:9092}
topics:
  PageViews: {kind: stream, topic: views, key: {text: user}, value: {json: 'page string, text string'}}
  UserProfiles: {kind: table, key: {text: user}, value: {text: region}}
  Counts: {kind: table, key: {long: id}, value: {text: region}}
  Customers: {kind: table, delta: crm.customers, changes: snapshot, key: customer_id bigint, value: name string}
  Prices: {kind: table, delta: crm.prices, changes: snapshot, key: "shop int, item string", value: price int}
"""
PIPELINE = """\
pipeline: page_views
steps:
  enriched: {left_join: {left: PageViews, right: UserProfiles}}
outputs:
  silver.enriched: {from: enriched}
"""
CASES = """\
pipeline: conf/p.yml
partitions: {PageViews: 2}
cases:
  - name: a view
    given:
      - {to: UserProfiles, key: alice, value: us-east, at: 0}
      - {to: PageViews, key: alice, value: {page: /home}, at: 1 s, partition: 1}
    expect:
      silver.enriched:
        - {key: alice, value: {page: /home, text: null, region: us-east}, at: 1 s, after: 2}
    refused: [{record: 1, code: LATE}]
"""
F = "cases.yml"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the files, with pairs of text and replacement in the one of cases; returns its path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/sources.yml").write_text(SOURCES)
    (tmp_path / "conf/p.yml").write_text(PIPELINE)

    def run(*changes, text=CASES):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / F).write_text(text, encoding="utf-8")
        return Path(F)

    return run


def faults_of(*files):
    with pytest.raises(TopologyInvalid) as caught:
        load(files)
    return caught.value.faults


# --- sound files -----------------------------------------------------------------------------------------------------


def test_a_file_is_its_cases(write):
    (suite,) = load([write()])
    (case,) = suite.cases
    assert (suite.file, suite.topology.name, suite.partitions) == (F, "page_views", {"views": 2})
    assert (case.name, case.where, case.refused, case.table) == ("a view", f"{F}:4", ((0, "LATE"),), {})
    assert [(one.source, one.key, one.value, one.timestamp_ms, one.partition) for one in case.given] == [
        ("UserProfiles", b"alice", b"us-east", 0, 0),
        ("PageViews", b"alice", b'{"page": "/home"}', 1_000, 1),
    ]
    (expected,) = case.expect["silver.enriched"]
    assert (expected.timestamp, expected.after, expected.kind) == (1_000, 1, None)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{base64: /w==}", b"\xff"),
        ("{text: '{'}", b'{"text": "{"}'),  # the format has a column of that name
        ("null", None),
        ("{page: '${HOME}'}", b'{"page": "${HOME}"}'),  # data, not configuration
        ("{page: 2024-02-29}", b'{"page": "2024-02-29"}'),
    ],
)
def test_values_are_written_as_the_format_holds_them_or_as_bytes(write, written, value):
    (suite,) = load([write(("{page: /home}", written))])
    assert suite.cases[0].given[1].value == value


def test_text_is_bytes_where_the_format_has_no_such_column(write):
    (suite,) = load([write(("value: us-east", "value: {text: 'us\\u0000'}"))])
    assert suite.cases[0].given[0].value == b"us\\u0000"


def test_files_of_one_topology_share_it(write, tmp_path):
    first = write()
    (tmp_path / "more").mkdir()
    second = tmp_path / "more" / F
    second.write_text(CASES.replace("conf/p.yml", "../conf/p.yml"))
    one, two = load([first, second])
    assert one.topology is two.topology


def test_a_python_topology_is_imported_from_the_working_directory(write, tmp_path):
    code = "from lakestreams import StreamsBuilder, Text\ndef {}:\n    {}\n    b.table('T', key=Text('k'), value=Text('v')).to_delta('t'{})\n"
    made = "b = StreamsBuilder('made')"
    (tmp_path / "ls_takes.py").write_text(code.format("build(b)", "pass", ", mode='merge'"))
    (tmp_path / "ls_returns.py").write_text(code.format("build()", made, ", mode='merge'") + "    return b\n")
    text = "topology: {}:build\ncases: [{{name: c, given: [{{to: T, key: a, value: x, at: 0}}], table: {{t: [{{key: a, value: {{v: x}}}}]}}}}]\n"
    for module, name in (("ls_takes", "build"), ("ls_returns", "made")):
        (suite,) = load([write(text=text.format(module))])
        assert suite.topology.name == name
        assert suite.cases[0].table == {"t": (("a", {"v": "x"}),)}


@pytest.mark.parametrize(
    ("source", "key", "written"),
    [
        ("Customers", "1", b'{"customer_id": 1}'),
        ("Customers", "{customer_id: 1}", b'{"customer_id": 1}'),
        ("Customers", "null", None),
        ("Prices", "{shop: 1, item: tea}", b'{"shop": 1, "item": "tea"}'),
    ],
)
def test_a_delta_tables_only_key_column_may_stand_alone(write, source, key, written):
    value = "{name: Ada}" if source == "Customers" else "{price: 2}"
    file = write(("to: UserProfiles, key: alice, value: us-east", f"to: {source}, key: {key}, value: {value}"))
    pipeline = file.parent / "conf" / "p.yml"
    pipeline.write_text(pipeline.read_text().replace("right: UserProfiles", f"right: {source}"))
    (suite,) = load([file])
    assert suite.cases[0].given[0].key == written


@pytest.mark.parametrize(
    "written", ['"1970-01-01T00:00:01Z"', "1970-01-01T00:00:01Z", "1970-01-01T01:00:01.000+01:00", "1000", "1 s"]
)
def test_a_time_is_ms_a_duration_or_iso(write, written):
    (suite,) = load([write(("at: 0", f"at: {written}"))])
    assert suite.cases[0].given[0].timestamp_ms == 1_000


# --- faults ----------------------------------------------------------------------------------------------------------

_CASE = f'{F}:{{}}  case "a view"'


@pytest.mark.parametrize(
    ("old", "new", "kind", "words", "line"),
    [
        ("to: PageViews", "two: PageViews", UnknownKey, "did you mean 'to'?", 7),
        ("    expect:", "    expects:", UnknownKey, "did you mean 'expect'?", 8),
        ("code: LATE", "codes: LATE", UnknownKey, "did you mean 'code'?", 11),
        (", after: 2}", ", afer: 2}", UnknownKey, "did you mean 'after'?", 10),
        ("to: PageViews", "to: PageView", UnknownReference, "did you mean 'PageViews'?", 7),
        ("silver.enriched:", "silver.enrich:", UnknownReference, "did you mean 'silver.enriched'?", 9),
        ("at: 0", "at: soon", InvalidDuration, "'soon' is not a duration", 6),
        ("at: 0", "at: 2026-02-30T00:00:00Z", InvalidDuration, "is not a duration", 6),
        ("at: 0", "at: 2026-02-03T00:00:00", InvalidDuration, "is not a duration", 6),  # of which zone?
        ("at: 0", "at: [1]", ConfigInvalid, "given.1.at is a list", 6),
        (", at: 0", "", ConfigInvalid, "'given.1.at' is missing see what the key takes: lakestreams explain cases", 6),
        ("key: alice, value: us-east", "key: 5, value: us-east", ConfigInvalid, "numbers of a text in quotes", 6),
        ("{page: /home}", "plain", ConfigInvalid, "'plain' cannot be written as json", 7),
        ("value: us-east", "value: {base64: '!'}", ConfigInvalid, "'!' is not base64", 6),
        ("value: us-east", "value: {text: 5}", ConfigInvalid, "text is 5, not text", 6),
        ("partition: 1", "partition: 2", ConfigInvalid, "PageViews has no partition 2", 7),
        ("partition: 1", "partition: -1", ConfigInvalid, "at least 0", 7),
        ("after: 2", "after: 3", ConfigInvalid, "the case gives 2 records", 10),
        ("record: 1", "record: 0", ConfigInvalid, "at least 1", 11),
        ("    refused: ", "    table: {silver.enriched: []}\n    refused: ", WrongKind, "is a stream", 11),
        ("at: 1 s, after: 2", "at: 1 s, kind: odd", ConfigInvalid, "record, matched, unmatched, tombstone", 10),
    ],
)
def test_a_fault_is_told_with_its_place(write, old, new, kind, words, line):
    file = write((old, new))
    (fault,) = faults_of(file)
    assert type(fault) is kind
    assert words in f"{fault.message} {fault.hint}"
    assert fault.where == _CASE.format(line)


@pytest.mark.parametrize(
    ("old", "new", "kind", "words", "line"),
    [
        ("pipeline: conf/p.yml", "", ConfigInvalid, "exactly one of pipeline, topology", 2),
        ("pipeline: conf/p.yml", "pipeline: conf/p.yml\ntopology: a:b", ConfigInvalid, "not pipeline and topology", 1),
        ("pipeline: conf/p.yml", "topology: a.b", ConfigInvalid, "module:function", 1),
        ("pipeline: conf/p.yml", "topology: no_such_thing:f", UnknownReference, "cannot be imported", 1),
        ("pipeline: conf/p.yml", "topology: os:getcwd", ConfigInvalid, "returned a str", 1),
        ("{PageViews: 2}", "{PageView: 2}", UnknownReference, "did you mean 'PageViews'?", 2),
        ("{PageViews: 2}", "{PageViews: 0}", ConfigInvalid, "at least 1", 2),
        ("cases:", "cases: []\nold:", UnknownKey, "known here: pipeline, sources, topology, partitions, cases", 4),
    ],
)
def test_a_fault_of_the_head(write, old, new, kind, words, line):
    faults = faults_of(write((old, new)))
    assert type(faults[0]) is kind
    assert words in f"{faults[0].message} {faults[0].hint}"
    assert faults[0].where == f"{F}:{line}"


def test_faults_of_all_files_at_once(write, tmp_path):
    first = write(("a view", "first"), ("to: PageViews", "to: PageView"), ("at: 0", "at: soon"))
    second = Path("second.yml")
    second.write_text(CASES + CASES.partition("cases:\n")[2])
    third = Path("third.yml")
    third.write_text("cases: [")
    found = [(type(fault), (fault.where or "").partition(" ")[0]) for fault in faults_of(first, second, third)]
    assert found == [
        (InvalidDuration, f"{F}:6"),
        (UnknownReference, f"{F}:7"),
        (DuplicateName, "second.yml:12"),
        (ConfigUnreadable, "third.yml:1"),
    ]


def test_a_file_without_a_case(write):
    (fault,) = faults_of(write(text="pipeline: conf/p.yml\ncases: []\n"))
    assert (fault.message, fault.where) == ("cases is empty", f"{F}:2")


@pytest.mark.parametrize("compared", ["", "    expect: {}\n", "    table: {}\n", "    refused: null\n"])
def test_a_case_that_compares_nothing_would_always_pass(write, compared):
    head = CASES.partition("    expect:")[0]
    (fault,) = faults_of(write(text=head + compared))
    assert "compares nothing" in fault.message
    assert "expect, refused or table" in fault.hint
    assert fault.where == _CASE.format(4)


def test_a_case_may_compare_that_nothing_is_refused(write):
    (suite,) = load([write(text=CASES.partition("    expect:")[0] + "    refused: []\n")])
    assert suite.cases[0].refused == ()


def test_a_broken_pipeline_is_told_once(write):
    Path("conf/p.yml").write_text(PIPELINE.replace("right: UserProfiles", "right: UserProfile"))
    second = Path("second.yml")
    second.write_text(CASES)
    (fault,) = faults_of(write(), second)
    assert fault.where == 'conf/p.yml:3  step "enriched"'


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_folders_files_are_those_with_cases(write, tmp_path):
    write()
    for name in ("deep/er/two.yaml", ".hidden/three.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(CASES)
    found = find([Path(), Path(F)])
    assert (found.files, found.others) == ((Path(F), Path("deep/er/two.yaml")), 2)


@pytest.mark.parametrize("place", ["nowhere", "conf"])
def test_nothing_to_run_is_an_error(write, place):
    with pytest.raises(ConfigUnreadable, match=place):
        find([Path(place)])


# --- the schema ------------------------------------------------------------------------------------------------------


def test_the_schema_takes_what_the_loader_takes():
    validator = jsonschema.Draft202012Validator(schema.json_schema("cases"))
    for text in (CASES, (ROOT / "tests/cases/enrichment.yml").read_text()):
        data = yaml.safe_load(text)
        validator.validate(json.loads(json.dumps(data, default=str)))
    wrong = yaml.safe_load(CASES.replace("to: PageViews", "two: PageViews"))
    assert not validator.is_valid(wrong)
