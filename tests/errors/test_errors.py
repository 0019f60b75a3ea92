"""Errors say the same in Python and in files, each in its own words, and know what they are about."""

from __future__ import annotations

import pickle

import pytest

from lakestreams import errors
from lakestreams.errors.phrases import Either, Option, OptionValue, Phrase
from lakestreams.errors.places import FilePlace, NodePlace


@pytest.mark.parametrize(
    ("part", "python", "file"),
    [
        (Option("within"), "within=", "within"),
        (Option("within", "5 minutes"), 'within="5 minutes"', "within: 5 minutes"),
        (Option("max_records", 10_000), "max_records=10_000", "max_records: 10000"),
        (OptionValue("mode", "all"), "mode='all'", "mode: all"),
        (OptionValue("mode", "it's"), 'mode="it\'s"', "mode: it's"),
        (OptionValue("mode", "a\x1b"), "mode='a\\x1b'", "mode: a\\x1b"),
        (OptionValue("partitions", 0), "partitions=0", "partitions: 0"),
        (OptionValue("partitions", True), "partitions=True", "partitions=True"),
        (OptionValue("left_on", ()), "left_on=()", "left_on=()"),
        (OptionValue("grace", "1 s", in_files=False), "grace='1 s'", "grace"),
        (Either(python="leave as_of out", file="leave history out"), "leave as_of out", "leave history out"),
        (Phrase("give ", Phrase(Option("a"), " or ", Option("b"))), "give a= or b=", "give a or b"),
        (Phrase.listed(["before", "after"], " and "), "before= and after=", "before and after"),
        (Phrase("a = b, and f(x)"), "a = b, and f(x)", "a = b, and f(x)"),
    ],
)
def test_a_part_reads_as_python_has_it_and_as_a_file_has_it(part, python, file):
    assert (part.python, part.file) == (python, file)


def test_an_error_knows_node_option_value_and_choices():
    error = errors.InvalidOption.none_of("mode", "all", ("append", "merge"), NodePlace("to_delta", "silver.x"))
    assert (error.node.word, error.node.name) == ("to_delta", "silver.x")
    assert (error.option, error.given, error.takes) == ("mode", "all", ("append", "merge"))
    assert (error.message, error.where) == ("mode='all' is none of append, merge", 'to_delta "silver.x"')


def test_an_error_speaks_python_until_it_is_asked_to_speak_yaml():
    error = errors.InvalidOption(Phrase("needs ", Option("left_on")), hint=Phrase(Option("left_on", "a")))
    assert (error.message, error.hint) == ("needs left_on=", 'left_on="a"')
    error.speak_yaml()
    assert (error.message, error.hint) == ("needs left_on", "left_on: a")


@pytest.mark.parametrize("cls", list(errors.catalogue()))
def test_a_class_that_has_a_hint_for_files_has_another_one_for_python(cls):
    assert cls.hint_in_files != cls.hint


@pytest.mark.parametrize(
    "place",
    [
        NodePlace("join", "a b"),
        FilePlace("conf/p.yml", 7),
        FilePlace("conf/p.yml", 7, 'step "x"').below("select.a"),
    ],
)
def test_a_place_crosses_a_process_as_it_is(place):
    error = errors.InvalidOption(Phrase(OptionValue("grace", lambda: 0), " is wrong"), where=place)
    came = pickle.loads(pickle.dumps(error))
    assert (type(came.where), came.where, vars_of(came.where)) == (type(place), place, vars_of(place))
    assert (str(came), came.option, came.node) == (str(error), "grace", error.node)


def vars_of(place):
    return {name: getattr(place, name) for name in type(place).__slots__}


def test_a_line_of_a_file_reads_as_editors_open_it():
    place = FilePlace("conf/p.yml", 7, 'step "x"')
    assert place == 'conf/p.yml:7  step "x"'
    assert place.line_alone == "conf/p.yml:7"
    assert FilePlace("conf/p.yml", 7).below("select.a") == "conf/p.yml:7  select.a"


def test_every_error_is_imported_from_one_address():
    assert {cls.__name__ for cls in errors.catalogue()} < set(errors.__all__)
    assert len(errors.__all__) == len(set(errors.__all__))
