"""Which join two sides make, and with which options: the kinds of the sides and the options given decide the shape.

The options of a shape stand here once: type checkers read them where `join`, `left_join` and `outer_join` are
declared, and a call with another one is refused with what the shape takes.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, get_args

from lakestreams.errors import InvalidOption, WrongKind
from lakestreams.errors.phrases import Either, Option, OptionValue, Part, Phrase
from lakestreams.errors.places import NodePlace
from lakestreams.topology.durations import Duration, to_ms
from lakestreams.topology.joins import ForeignKeyJoin, TableTableJoin, WindowedJoin
from lakestreams.topology.kinds import (
    GLOBAL,
    AnyJoiner,
    CoPartitioning,
    Emission,
    Mapper,
    OuterJoinKind,
    Projection,
    Rules,
)
from lakestreams.topology.lookups import ForeignKeyStreamJoin, StreamGlobalJoin, StreamTableJoin
from lakestreams.topology.mappers import ByName, ForeignKey

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.topology.fields import Fields
    from lakestreams.topology.joins import Join
    from lakestreams.topology.node import Node

On: TypeAlias = "str | Sequence[str] | Mapper"
OnKey: TypeAlias = "str | Sequence[str] | Callable[[Fields], Projection | Column]"
Settings: TypeAlias = "Callable[[Mapping[str, Any], str], dict[str, Any]]"


class Named(TypedDict, total=False):
    """Of every join: `name` of the step, by default `<left>_<verb>_<right>`."""

    name: str | None


class _CoPartitioned(Named, total=False):
    """Of joins by key: what unequal partition counts mean, `require` (refused, the default), `warn` or `off`."""

    co_partitioning: CoPartitioning


class InnerWindow(_CoPartitioned, total=False):
    """Stream with stream: `within`, or `before` and `after` (one alone leaves the other 0; either may be negative)."""

    within: Duration
    before: Duration
    after: Duration
    grace: Duration
    rules: Rules


class OuterWindow(InnerWindow, total=False):
    """As `InnerWindow`, and when rows without a partner come out."""

    emit_unmatched: Emission


class ByKey(_CoPartitioned, total=False):
    """Stream with table: `grace` only with a versioned table, `wait` only with one that is none."""

    grace: Duration
    wait: Duration


class ByKeyOrNone(ByKey, total=False):
    """As `ByKey`, and how long what came out without a row can be put right."""

    amend: Duration


class ByForeignKeyOfTable(Named, total=False):
    """Stream with the table rows that name its key (KIP-955)."""

    right_on: Required[OnKey]


class ByMappedKey(Named, total=False):
    """Stream with a global table, or table with the table row that it names."""

    left_on: Required[OnKey]


class ByKeyOfTables(_CoPartitioned, total=False):
    """Table with table."""


_OPTIONS: dict[type[Join], type] = {
    WindowedJoin: OuterWindow,
    StreamTableJoin: ByKeyOrNone,
    ForeignKeyStreamJoin: ByForeignKeyOfTable,
    StreamGlobalJoin: ByMappedKey,
    TableTableJoin: ByKeyOfTables,
    ForeignKeyJoin: ByMappedKey,
}
# The option that turns a join by key into one by foreign key.
_BY_FOREIGN_KEY: dict[type[Join], str] = {StreamTableJoin: "right_on", TableTableJoin: "left_on"}
# An inner join has no unmatched rows, so that there is nothing to say of when they come out, or are put right.
_OF_UNMATCHED = frozenset({"emit_unmatched", "amend"})
_WITHIN = Option("within")
_BOTH = Phrase.listed(["before", "after"], " and ")  # the two bounds that `within` stands for
_NEAR = 0.75  # how alike a misspelt option is: `withn` is, `wait` is not


def key_mapper(on: On, where: NodePlace) -> Mapper:
    """A function that makes a key: the one given, or the columns of the names given.

    Raises:
        InvalidOption: if it is neither.
    """
    given: Any = on  # users without a type checker pass anything
    if callable(given):
        require_one_argument(given, where)
        made: Mapper = given
        return made
    names = _names(given)
    if not names:
        hint = "give a column's name, several, or a function from the fields to a dict of name to Column"
        raise InvalidOption(f"{given!r} names no columns and is not a function", hint=hint, where=where)
    return ByName(names)


def options_of(shape: type[Join], how: OuterJoinKind) -> tuple[str, ...]:
    """The options a join takes besides its name, sorted."""
    out = {"name", *_OF_UNMATCHED} if how == "inner" else {"name"}
    return tuple(sorted(_OPTIONS[shape].__annotations__.keys() - out))


def declare(
    how: OuterJoinKind, left: Node, right: Node, joiner: AnyJoiner | None, options: Mapping[str, object]
) -> Join:
    """The join node that a call stands for.

    Args:
        how: inner, left or outer.
        left, right: the two sides.
        joiner: the function over both sides, if any.
        options: what was given by name; None counts as not given.

    Raises:
        WrongKind: if there is no such join between these sides.
        InvalidOption: of an option that the shape does not take, or one that is missing.
        InvalidDuration: of a bound or grace that is no duration.
    """
    present: dict[str, Any] = {option: value for option, value in options.items() if value is not None}
    verb = "join" if how == "inner" else f"{how}_join"
    name = present.pop("name", f"{left.name}_{verb}_{right.name}")
    where = NodePlace(verb, name)
    shape = _shape(left, right, present, where)
    if how == "outer" and how not in get_args(shape.choices["how"]):
        msg = f"there is no outer {shape.shape} join"
        ways = Either(python="join(...), left_join(...)", file="join, left_join")
        raise WrongKind(msg, hint=Phrase("use an inner or left join: ", ways), where=where)
    function: object = joiner  # users without a type checker pass anything
    if function is not None and not callable(function):
        msg = f"the joiner {function!r} is not a function"
        example = Option("within", "5 minutes")
        hint = Phrase("from the fields of both sides to a dict of name to Column; options are given by name: ", example)
        raise InvalidOption(msg, hint=hint, where=where)
    if joiner is not None and not takes(joiner, 2):
        msg = "the joiner cannot be called with two arguments, the fields of both sides"
        raise InvalidOption(msg, hint="write lambda left, right: {...}; keys are fields, too", where=where)
    _refuse_foreign(shape, how, present, where)
    make: Callable[..., Join] = shape
    return make(name=name, left=left, right=right, how=how, joiner=joiner, **_SETTINGS[shape](present, where))


def takes(function: Callable[..., object], count: int) -> bool:
    """Whether a function can be called with so many arguments; a function that does not say it can."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # some built-in functions
        return True
    return True


def require_one_argument(function: Callable[..., object], where: str) -> None:
    """Refuses a function that cannot be called with a record's fields.

    Raises:
        InvalidOption: then.
    """
    if not takes(function, 1):
        msg = "the function cannot be called with one argument, the record's fields"
        raise InvalidOption(msg, hint="write lambda row: ...; the key's columns are fields, too", where=where)


def _names(on: object) -> tuple[str, ...]:
    """Names of columns, one or several; none if it is something else."""
    names = (on,) if isinstance(on, str) else on
    is_names = isinstance(names, Sequence) and all(isinstance(name, str) and name for name in names)
    return tuple(names) if is_names else ()  # type: ignore[arg-type]  # texts, as was just seen


def refuse_unnamed(unnamed: Sequence[object], where: NodePlace) -> None:
    """Refuses options without their names: Kafka Streams takes windows and key extractors by their places.

    Raises:
        InvalidOption: if there are any.
    """
    if unnamed:
        msg = "the third argument of a join has no name; by place it takes the other side and a joiner"
        window, key = Option("within", "5 minutes"), Option("left_on", "column")
        raise InvalidOption(msg, hint=Phrase("give options by name, such as ", window, " or ", key), where=where)


def _shape(left: Node, right: Node, options: Mapping[str, Any], where: str) -> type[Join]:
    if left.is_table and right.makes == GLOBAL:
        msg = f"{left.name} is a table, {right.name} a global table; a global table joins streams only"
        way = Either(python="with table(...)", file="as kind: table")
        key = Phrase(", and name its key with ", Option("left_on"), f" where it is not {left.name}'s own")
        raise WrongKind(msg, hint=Phrase(f"declare {right.name} ", way, key), where=where)
    if left.is_table and not right.is_table:
        msg = f"{left.name} is a table, {right.name} a stream; a table joins tables only"
        raise WrongKind(msg, hint=f"start from the stream: {right.name} joined with {left.name}", where=where)
    if left.is_table:
        return ForeignKeyJoin if "left_on" in options else TableTableJoin
    if right.makes == GLOBAL:
        return StreamGlobalJoin
    if right.is_table:
        return ForeignKeyStreamJoin if "right_on" in options else StreamTableJoin
    return WindowedJoin


def _refuse_foreign(shape: type[Join], how: OuterJoinKind, options: Mapping[str, Any], where: str) -> None:
    taken = options_of(shape, how)
    for option in options:
        if option in taken:
            continue
        kind = f"{'inner ' if how == 'inner' and option in _OF_UNMATCHED else ''}{shape.shape} join"
        # a file's text is without the value, which may be a function
        wrong = OptionValue(option, options[option], in_files=False)
        msg = Phrase(wrong, f" is no option of this join, which is {_article(kind)} {kind}")
        raise InvalidOption(msg, hint=_of_this_join(option, shape, taken), where=where, takes=taken)


def _of_this_join(option: str, shape: type[Join], taken: Sequence[str]) -> Phrase:
    """What a join takes in place of an option that is none of its own."""
    near = difflib.get_close_matches(option, taken, n=1, cutoff=_NEAR)
    parts: list[str | Part] = [f"did you mean {near[0]}=? " if near else "", f"it takes {', '.join(taken)}"]
    if shape in _BY_FOREIGN_KEY:
        parts += ["; ", Option(_BY_FOREIGN_KEY[shape]), " makes it a foreign-key one"]
    others = [one.shape for one in _OPTIONS if one is not shape and option in options_of(one, "outer")]
    if others:
        parts += ["; ", Option(option), f" is of {' and '.join(others)} joins"]
    if option == "left_on" and shape is StreamTableJoin:
        parts += ["; to look up by another column, give the stream that key first: select_key"]
    return Phrase(*parts)


def _windowed(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    bounds = [side for side in ("before", "after") if side in options]
    if "within" not in options and not bounds:
        msg = "a join of two streams needs a window"
        hint = Phrase(Option("within", "5 minutes"), ", or ", _BOTH, " (either alone leaves the other 0)")
        raise InvalidOption(msg, hint=hint, where=where)
    if "within" in options and bounds:
        both = Phrase(_WITHIN, " sets both bounds, and ", Phrase.listed(bounds, " and "), " contradicts it")
        hint = Phrase("give ", _WITHIN, ", or ", _BOTH)
        raise InvalidOption(both, hint=hint, where=where, option="within", given=options["within"])
    if "within" in options:
        before_ms = after_ms = to_ms(options["within"], "within")
    else:
        before_ms, after_ms = (to_ms(options.get(side, "0 s"), side, signed=True) for side in ("before", "after"))
    rest = {option: options[option] for option in ("rules", "emit_unmatched", "co_partitioning") if option in options}
    return {
        "before_ms": before_ms,
        "after_ms": after_ms,
        "grace_ms": to_ms(options.get("grace", "0 s"), "grace"),
        **rest,
    }


def _by_key(options: Mapping[str, Any], where: str) -> dict[str, Any]:  # noqa: ARG001 - all of them are called alike
    rest = {option: options[option] for option in ("co_partitioning",) if option in options}
    times = {
        f"{option}_ms": to_ms(options[option], option) for option in ("grace", "wait", "amend") if option in options
    }
    return rest | times


def _by_mapper(option: str, shape: type[Join]) -> Settings:
    return lambda options, where: {option: _mapper(options, option, shape, where)}


def _mapper(options: Mapping[str, Any], option: str, shape: type[Join], where: str) -> Mapper:
    """What `left_on` or `right_on` stands for: a function, which may return the column itself, or names of columns."""
    on = options.get(option)
    ways = f', {option}=("one", "two") or a function from the fields to a Column or a dict of name to Column'
    hint = Phrase(Option(option, "column"), ways)
    if on is None:
        raise InvalidOption(Phrase(f"a {shape.shape} join needs ", Option(option)), hint=hint, where=where)
    if callable(on):
        require_one_argument(on, where)
        return on if isinstance(on, ByName) else ForeignKey(on)
    names = _names(on)
    if not names:
        msg = Phrase(OptionValue(option, on), " names no columns and is not a function")
        raise InvalidOption(msg, hint=hint, where=where)
    return ByName(names)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


# What of a node's fields the options say.
_SETTINGS: dict[type[Join], Settings] = {
    WindowedJoin: _windowed,
    StreamTableJoin: _by_key,
    ForeignKeyStreamJoin: _by_mapper("right_on", ForeignKeyStreamJoin),
    StreamGlobalJoin: _by_mapper("left_on", StreamGlobalJoin),
    TableTableJoin: _by_key,
    ForeignKeyJoin: _by_mapper("left_on", ForeignKeyJoin),
}
