"""Where a pipeline's file has SQL: references in it stay as they are written, whichever step it is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from lakestreams.config.compile import is_sql
from lakestreams.config.load import KeyPath
from lakestreams.config.parts import Columns, Select, Sql
from lakestreams.config.steps import VERBS
from lakestreams.config.verbs import AGGREGATORS, AggregateSpec


def _places() -> Iterator[KeyPath]:
    """Every place of SQL in a step, by the types of its keys."""
    for verb, kind in VERBS.items():
        for name, info in kind.spec.model_fields.items():
            here, text = ("steps", "one", verb, info.alias or name), str(info.annotation)
            if str(get_args(Columns)[0]) in text or str(get_args(Select)[0]) in text:
                yield (*here, "column")
            elif str(Sql) in text or info.rebuild_annotation() == Sql:
                yield here
    yield from (("steps", "one", "aggregate", "columns", "column", one) for one in AGGREGATORS)


PLACES = sorted(set(_places()))


def test_all_kinds_of_places_are_found() -> None:
    assert ("steps", "one", "filter", "where") in PLACES
    assert ("steps", "one", "flat_map_values", "keep", "column") in PLACES
    assert ("steps", "one", "left_join", "left_on", "column") in PLACES
    assert ("steps", "one", "aggregate", "value", "column") in PLACES
    assert "columns" in AggregateSpec.model_fields


@pytest.mark.parametrize("place", PLACES, ids="/".join)
def test_each_of_them_is_known_as_sql(place: KeyPath) -> None:
    assert is_sql(place), place


def test_a_secret_in_the_kept_columns_is_in_no_recorded_text(load, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("SALT", "it's secret")
    pipeline = load(
        pipeline="""\
pipeline: page_views
steps:
  each:
    flat_map_values:
      from: PageViews
      each: array(named_struct('page', page))
      keep: {salted: "sha2(concat(user, '${SALT}'), 256)"}
outputs:
  silver.each: {from: each}
"""
    )
    assert "secret" not in pipeline.text
    assert "${SALT}" in pipeline.text
