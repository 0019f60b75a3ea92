"""The steps of a file: what each verb says, and how it is declared with the handles that a Python topology uses.

`VERBS` is the list of all steps: a further one is a line of it, next to its class in `verbs` and its method of a handle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ConfigDict, Field, create_model, model_validator

from lakestreams.config.expected import WithExpectations, declare_expectations
from lakestreams.config.groups import declare_groups
from lakestreams.config.joins import declare_join
from lakestreams.config.load import Document
from lakestreams.config.mappers import Elements, Pair
from lakestreams.config.parts import Model, Select, exactly_one
from lakestreams.config.scope import ANY, STREAM, TABLE, AnyHandle, Scope
from lakestreams.config.verbs import (
    AggregateSpec,
    CountSpec,
    FilterSpec,
    FlatMapValuesSpec,
    FromSpec,
    JoinSpec,
    MapSpec,
    MergeSpec,
    References,
    RepartitionSpec,
    SelectSpec,
    SuppressSpec,
)
from lakestreams.config.wording import placed
from lakestreams.errors import LakestreamsError


@dataclass(frozen=True)
class Verb:
    """A kind of step.

    Attributes:
        spec: what stands behind the verb.
        text: what it does, in a sentence.
        declare: from that, the scope and the step's name to the handle; None if a fault is in the way.
        selects: whether a `select` may stand next to the verb, which `declare` then gets as well.
    """

    spec: type[Model]
    text: str
    declare: Callable[..., AnyHandle | None]
    selects: bool = False


def _one_verb(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": [verb]} for verb in VERBS]
    schema["dependentSchemas"] = {"select": {"anyOf": [{"required": [verb]} for verb in _SELECTING]}}


class StepSpec(WithExpectations):
    """A step: exactly one of the verbs; a join may also have a `select`."""

    model_config = ConfigDict(json_schema_extra=_one_verb)

    select: Select | None = Field(
        default=None, description="Of a join: the columns of its result; by default all of both sides."
    )

    @model_validator(mode="after")
    def _one(self) -> StepSpec:
        exactly_one(self, tuple(VERBS), "a step")
        if self.select is not None and not VERBS[self.verb].selects:
            inside = [verb for verb, kind in VERBS.items() if kind.spec is SelectSpec]
            msg = f"select goes next to {', '.join(_SELECTING)}; in {' and '.join(inside)} it goes inside"
            raise ValueError(msg)
        return self

    @property
    def verb(self) -> str:
        """Which step it is."""
        return next(verb for verb in VERBS if getattr(self, verb) is not None)

    @property
    def part(self) -> Any:
        """What stands behind the verb."""
        return getattr(self, self.verb)

    @property
    def inputs(self) -> References:
        """The names it refers to, each with the path to it inside the step."""
        references: References = self.part.inputs
        return tuple((f"{self.verb}.{key}", name) for key, name in references)


def declare_step(name: str, spec: StepSpec, document: Document, handles: Mapping[str, AnyHandle]) -> AnyHandle | None:
    """The handle of a step; None if a fault is in the way, which is noted in the document.

    Args:
        spec: what the file says of it.
        handles: sources and steps that are declared already, by name.
    """
    scope, kind = Scope(document, handles, ("steps", name), spec.verb), VERBS[spec.verb]
    handle: AnyHandle | None = None
    try:
        handle = kind.declare(spec.part, scope, name, *([spec.select] if kind.selects else []))
    except LakestreamsError as fault:
        document.faults.append(placed(fault, document, scope.at()))
    if handle is not None:
        declare_expectations(handle, spec, document, ("steps", name))
    return handle


def _filter(spec: FilterSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, ANY)
    predicate = scope.computed(spec.where, spec.from_, scope.at("where"))
    return handle.filter(predicate, name=name) if scope.sound else None


def _map_values(spec: SelectSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, ANY)
    mapper = scope.projection(spec.select, (spec.from_,), scope.at("select"))
    return handle.map_values(mapper, name=name) if scope.sound else None


def _select_key(spec: SelectSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    mapper = scope.projection(spec.select, (spec.from_,), scope.at("select"))
    return handle.select_key(mapper, name=name) if scope.sound else None


def _map(spec: MapSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    key, value = (
        scope.projection(part, (spec.from_,), scope.at(side))
        for side, part in (("key", spec.key), ("value", spec.value))
    )
    return handle.map(Pair(key, value), name=name) if scope.sound else None


def _flat_map_values(spec: FlatMapValuesSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    mapper: Any = scope.computed(spec.each, spec.from_, scope.at("each"))
    if spec.keep is not None:
        mapper = Elements(mapper, scope.columns(spec.keep, spec.from_, scope.at("keep")))
    return handle.flat_map_values(mapper, name=name) if scope.sound else None


def _merge(spec: MergeSpec, scope: Scope, name: str) -> Any:
    left, right = scope.handle("left", spec.left, STREAM), scope.handle("right", spec.right, STREAM)
    return left.merge(right, name=name) if scope.sound else None


def _repartition(spec: RepartitionSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, STREAM)
    return handle.repartition(spec.partitions, name=name) if scope.sound else None


def _suppress(spec: SuppressSpec, scope: Scope, name: str) -> Any:
    handle = scope.handle("from", spec.from_, TABLE)
    options = {"max_records": spec.max_records, "when_full": spec.when_full}
    present = {option: value for option, value in options.items() if value is not None}
    return handle.suppress(spec.until, name=name, **present) if scope.sound else None


def _plain(takes: tuple[type[AnyHandle], ...]) -> Callable[[FromSpec, Scope, str], Any]:
    """A step that takes nothing but its input."""

    def declare(spec: FromSpec, scope: Scope, name: str) -> Any:
        handle = scope.handle("from", spec.from_, takes)
        return getattr(handle, str(scope.inside))(name=name) if scope.sound else None

    return declare


VERBS: Final[dict[str, Verb]] = {
    "join": Verb(
        JoinSpec, "Records or rows with a partner on the other side; others give no result.", declare_join, selects=True
    ),
    "left_join": Verb(JoinSpec, "All of the left side, with nulls if there is no partner.", declare_join, selects=True),
    "outer_join": Verb(JoinSpec, "All of both sides, with nulls if there is no partner.", declare_join, selects=True),
    "filter": Verb(FilterSpec, "Records or rows for which an expression is true.", _filter),
    "map_values": Verb(SelectSpec, "New values; key, time and order stay.", _map_values),
    "select_key": Verb(SelectSpec, "Of a stream: a new key instead of the old one; value and time stay.", _select_key),
    "map": Verb(MapSpec, "Of a stream: a new key and a new value.", _map),
    "flat_map_values": Verb(FlatMapValuesSpec, "Of a stream: none, one or several records for each.", _flat_map_values),
    "merge": Verb(MergeSpec, "The records of two streams as one stream.", _merge),
    "repartition": Verb(RepartitionSpec, "Of a stream: the number of tasks for the following steps.", _repartition),
    "to_table": Verb(FromSpec, "A stream read as a table: the newest record of a key.", _plain(STREAM)),
    "to_stream": Verb(FromSpec, "A table's changes as a stream.", _plain(TABLE)),
    "drop_absent_deletes": Verb(FromSpec, "A table without the deletions of keys that have no row.", _plain(TABLE)),
    "count": Verb(CountSpec, "A table of the number of records or rows in each group.", declare_groups),
    "aggregate": Verb(AggregateSpec, "A table of aggregates of each group, such as sums.", declare_groups),
    "suppress": Verb(SuppressSpec, "A table of which only the last update within a time comes out.", _suppress),
}
_SELECTING: Final = tuple(verb for verb, kind in VERBS.items() if kind.selects)


def step_spec() -> type[StepSpec]:
    """`StepSpec` with a key for each verb."""
    keys: dict[str, Any] = {
        verb: (kind.spec | None, Field(default=None, description=kind.text)) for verb, kind in VERBS.items()
    }
    return create_model("StepSpec", __base__=StepSpec, __doc__=StepSpec.__doc__, **keys)


STEP: Final = step_spec()
