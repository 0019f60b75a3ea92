"""Where in a pipeline's files a fault of its topology stands: what is found without the files has a node, but no line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from lakestreams.config.load import Document, read
from lakestreams.config.mappers import expressions_of
from lakestreams.errors import ConfigUnreadable, InvalidExpression, LakestreamsError, unfold
from lakestreams.expressions.parse import compile_expression

if TYPE_CHECKING:
    from lakestreams.config.compile import Pipeline
    from lakestreams.expressions.parse import Expression
    from lakestreams.topology.expectations import Rule


_VERBS: Final = {"warn": "expect", "drop": "expect_or_drop", "fail": "expect_or_fail"}
_Documents: TypeAlias = "list[tuple[Document, str]]"


def locate(error: LakestreamsError, pipeline: Pipeline) -> LakestreamsError:
    """Adds file and line to faults that name a step, output or source of the pipeline's files."""
    documents: _Documents = []
    for fault in unfold(error):
        node = fault.node
        if node is None:
            continue
        if not documents:
            try:
                own, shared = read(pipeline.path), read(pipeline.sources_path, keep=frozenset({("kafka",)}))
            except ConfigUnreadable:  # changed since it was loaded: the fault must not be lost for its line
                return error
            documents = [(own, "steps"), (own, "outputs"), (shared, "topics")]
        expression = (
            _expression(fault, node.name, pipeline, documents) if isinstance(fault, InvalidExpression) else None
        )
        if expression is not None:
            fault.where = expression.where
            continue
        for document, part in documents:
            if (part, node.name) in document.lines:
                fault.where = document.where((part, node.name))
                break
    return error


def _expression(fault: InvalidExpression, node: str, pipeline: Pipeline, documents: _Documents) -> Expression | None:
    """The expression of a node that a fault of the analyser is about; None if it may be any of several."""
    topology = pipeline.topology
    parts = (part for one in topology.nodes if one.name == node for part in vars(one).values())
    expressions = [one for part in parts for one in expressions_of(part)]
    expressions += [
        _condition(rule, documents) for rule in topology.expectations.rules_of(node) if type(rule.condition) is str
    ]
    meant = [one for one in expressions if isinstance(fault.given, str) and _bare(fault.given) in _bare(one.sql)]
    return meant[0] if meant else expressions[0] if len(expressions) == 1 else None


def _condition(rule: Rule, documents: _Documents) -> Expression:
    """The condition of an expectation, with its place."""
    for document, part in documents:
        path = (part, rule.dataset, _VERBS[rule.action], rule.name)
        if path in document.lines:
            return compile_expression(str(rule.condition), document.where(path))
    return compile_expression(str(rule.condition))


def _bare(sql: str) -> str:
    """SQL without the sides that its columns are of, which a step's frame names otherwise than the file."""
    return re.sub(r"`[^`]*`\.", "", sql)
