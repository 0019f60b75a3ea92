"""What a topology's results follow from: node by node a few texts, which are recorded and compared.

Left out is whatever changes no row: the layout of tables, required partition counts, rules that only count, and options
that have their default. Expressions and functions appear as digests: their text may hold a secret.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from lakestreams.topology.expectations import Rule, text_of_code
from lakestreams.topology.mappers import ByName

if TYPE_CHECKING:
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

Results = dict[str, dict[str, str]]
"""Node to option to text."""

NODE: Final = "is"
RULE: Final = "rule "
KEYS_NOT_NULL: Final = "keys_not_null"
# Reported by `NODE`, or of no effect on rows.
_NO_RESULT: Final = frozenset(
    {"name", "parent", "left", "right", "how", "cluster_by", "partition_by", "change_feed", "co_partitioning"}
)
# What a function's text is the same in: bytecode is that of one version of Python.
_PYTHON: Final = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
_UNITS: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


def of(topology: Topology) -> Results:
    """What the results of a topology follow from."""
    found: Results = {}
    for node in topology.nodes:
        own = {NODE: _inputs(node)}
        for one in fields(node):
            if one.name not in _NO_RESULT:
                own |= _option(one, getattr(node, one.name))
        own |= {f"{RULE}{rule.name}": _rule(rule) for rule in topology.expectations.rules_of(node.name)}
        found[node.name] = own
    return found


def functions(results: Results) -> str:
    """The digests of Python functions, which the description of a topology does not have; empty without any."""
    told = [f"{name}.{option} {text}" for name, own in sorted(results.items()) for option, text in sorted(own.items())
            if "Python " in text]  # fmt: skip
    return "\n".join(told)


def _inputs(node: Node) -> str:
    return " ".join((node.word, *(f"of {parent.name}" for parent in node.parents)))


def _option(option: Field[Any], value: Any) -> dict[str, str]:
    """An option as texts; none if it has its default, so that a later version may have more of them."""
    default = option.default_factory() if option.default_factory is not MISSING else option.default
    if default is not MISSING and value == default:
        return {}
    columns = getattr(value, "columns", None)
    if is_dataclass(value) and isinstance(columns, tuple) and columns and isinstance(columns[0], tuple):
        return {f"{option.name} {name}": _text(rest) for name, *rest in columns} | {
            option.name: f"columns {', '.join(name for name, *_ in columns)}"
        }
    if is_dataclass(value) and all(one.name.endswith("_ms") for one in fields(value)):
        times = {one.name.removesuffix("_ms"): getattr(value, one.name) for one in fields(value)}
        return {f"{option.name} {name}": _duration(ms) for name, ms in times.items()}
    if option.name.endswith("_ms") and isinstance(value, int):
        return {option.name.removesuffix("_ms"): _duration(value)}
    if isinstance(value, str | int | bool):
        return {option.name: str(value)}
    return {option.name: _text(value)}


def _rule(rule: Rule) -> str:
    condition = rule.condition if callable(rule.condition) else f"expression {_of_sql(rule.condition, rule.condition)}"
    return f"{rule.action}: {condition if isinstance(condition, str) else _text(condition)}"


def _of_sql(written: str, checked: str) -> str:
    """A digest of SQL: of its checked form; with references to the environment as it is written, since values may be secrets."""
    values = getattr(written, "digest", "")  # slow and short (decision 0025)
    return _digest(f"{written} {values}" if values else checked)


def _text(value: Any) -> str:
    """A value as a text that is the same in every process."""
    if isinstance(value, ByName):
        return f"columns {', '.join(value.names)}"
    if isinstance(getattr(value, "sql", None), str):  # an expression of a file
        return f"expression {_of_sql(getattr(value, 'text', ''), value.sql)}"
    describe = getattr(value, "describe", None)
    if callable(describe) and not isinstance(value, type):
        return str(describe())
    if is_dataclass(value) and not isinstance(value, type):
        told = ", ".join(_text(getattr(value, one.name)) for one in fields(value) if one.compare)
        return f"{type(value).__name__}({told})"
    if isinstance(value, FunctionType | MethodType):
        return f"{_PYTHON} function {_digest(_function(value, frozenset()))}"
    if isinstance(value, partial):
        return f"partial({_text(value.func)}, {_text(value.args)}, {_text(value.keywords)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_text(one)}' for name, one in value.items())}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, str | bytes | int | float | bool | None):
        return repr(value)
    return type(value).__qualname__


def _function(function: FunctionType | MethodType, seen: frozenset[str]) -> str:
    """What a function does: its code, what it brings along, and what it uses of its own module."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return type(plain).__qualname__
    told = text_of_code(plain.__code__)
    brought = [*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values(), *_cells(plain)]
    known = seen | {plain.__qualname__}
    used = [plain.__globals__[name] for name in _names(plain.__code__) if name in plain.__globals__]
    own = [one for one in used if getattr(one, "__module__", None) == plain.__module__ or _is_plain(one)]
    return " ".join((told, *(_brought(one, known) for one in (*brought, *own))))


def _brought(value: object, seen: frozenset[str]) -> str:
    if isinstance(value, FunctionType | MethodType):
        return "" if value.__qualname__ in seen else _function(value, seen)
    if isinstance(value, tuple | list):
        return " ".join(_brought(one, seen) for one in value)
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_brought(one, seen)}" for name, one in value.items())
    return repr(value) if _is_plain(value) else type(value).__qualname__


def _names(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names(one)


def _cells(function: FunctionType) -> list[object]:
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not set yet
            continue
    return found


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bytes | int | float | None)


def _duration(ms: int) -> str:
    """A duration without loss, in the largest unit that it is a whole number of."""
    unit, size = next(((name, size) for name, size in _UNITS if ms and ms % size == 0), ("ms", 1))
    count = ms // size
    return f"{count} {unit}{'s' if unit != 'ms' and abs(count) != 1 else ''}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
