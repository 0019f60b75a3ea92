"""What is wrong with a file that is not YAML, or that YAML reads otherwise than it was meant: where, what, what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml
from yaml.reader import ReaderError

_KEY = re.compile(r"^\s*(?:- )?[^\s#:][^#:]*:(?=\s|$)")
_MAY_NOT_BEGIN = re.compile(r"found character '(?P<sign>[^\\'])' that cannot start any token")


class YamlFault(NamedTuple):
    """A fault, with its line from 1; None if the parser names none."""

    line: int | None
    message: str
    hint: str | None = None


def explained(error: yaml.YAMLError, text: str) -> YamlFault:
    """What the parser stumbled over.

    Args:
        error: what the parser says.
        text: the file's text.
    """
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        sign = f"U+{ord(text[error.position]):04X}"
        return YamlFault(line, f"this is not YAML: it has the character {sign}", "remove that character")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return YamlFault(None, f"this is not YAML: {getattr(error, 'reason', None) or 'syntax error'}")
    problem, context = error.problem or "syntax error", error.context or ""
    line = error.problem_mark.line
    began = line if error.context_mark is None else error.context_mark.line
    lines = [*text.splitlines(), ""]
    if "'\\t'" in problem:
        return YamlFault(line + 1, "the line is indented with a tab", "indent with spaces")
    if problem.startswith("mapping values are not allowed"):
        return _unexpected_colon(lines, line)
    if "could not find expected ':'" in problem:
        return YamlFault(began + 1, "the line has no colon after its key", "write it as key: value")
    if "quoted scalar" in context:
        return YamlFault(began + 1, "a quote is not closed", "close it, or double it if it belongs to the text")
    if context.startswith("while parsing a flow"):
        sign = "{" if "mapping" in context else "["
        hint = f"close it with {'}' if sign == '{' else ']'}, and put commas between its parts"
        return YamlFault(began + 1, f"the {sign} is not closed, or a comma is missing", hint)
    if problem.startswith(("expected <block end>", "expected chomping")):
        return _unexpected_part(lines, line)
    if problem.startswith("nested more than"):
        return YamlFault(line + 1, f"the file is {problem}", "write it with fewer levels")
    if "found another document" in problem:
        return YamlFault(line + 1, "a second document begins here", "a file is one document: remove the line ---")
    if problem.startswith("found undefined alias"):
        name = problem.removeprefix("found undefined alias ").strip("'")
        return YamlFault(line + 1, f"*{name} refers to nothing", f"mark what it stands for with &{name}, further up")
    match = _MAY_NOT_BEGIN.search(problem)
    if match or "scanning an alias" in context or "scanning an anchor" in context:
        first = match["sign"] if match else "*" if "alias" in context else "&"
        return YamlFault(began + 1, f"a value cannot begin with {first}", "put quotes around it")
    return YamlFault(line + 1, f"this is not YAML: {problem}")


def _unexpected_colon(lines: list[str], line: int) -> YamlFault:
    """A key where none can be: in the value of its own line, or of the line before."""
    key = _KEY.match(lines[line])
    value = "" if key is None else lines[line][key.end() :].lstrip()
    if key is None or (value[:1] not in ("{", "[") and re.search(r":(?=\s|$)", value)):
        return YamlFault(line + 1, "the value has a colon and a space in it", "put quotes around the value")
    before = next((one for one in range(line - 1, -1, -1) if lines[one].split("#")[0].strip()), line)
    if _KEY.match(lines[before]):
        return YamlFault(
            line + 1, "the line is indented deeper than the key before it, which has a value", "indent both alike"
        )
    return YamlFault(before + 1, "the line has no colon after its key", "write it as key: value")


def _unexpected_part(lines: list[str], line: int) -> YamlFault:
    key = _KEY.match(lines[line])
    if key is not None and lines[line][key.end() :].lstrip().startswith(("'", '"')):
        return YamlFault(
            line + 1, "the value continues after its closing quote", "put the whole value into the other kind of quotes"
        )
    return YamlFault(
        line + 1, "the line is not aligned with the other keys", "start all keys of a mapping in the same column"
    )


# --- values that a comma cuts ----------------------------------------------------------------------------------------


def uncut(node: yaml.MappingNode) -> tuple[list[tuple[yaml.Node, yaml.Node]], list[tuple[yaml.Node, str]]]:
    """The pairs of a mapping; in braces, each value that a comma of its own has cut is whole again.

    `{day: date_add(page, 1)}` is to YAML a key `day` with `date_add(page`, and a key `1)` without a value.

    Returns:
        The pairs; and the keys whose values were cut, with what is meant.
    """
    if not node.flow_style:
        return node.value, []
    pairs: list[tuple[yaml.Node, yaml.Node]] = []
    cut: dict[yaml.Node, str] = {}
    for key, value in node.value:
        own, before = pairs[-1] if pairs else (key, value)
        if pairs and isinstance(before, yaml.ScalarNode) and not before.style and not _between(key, value):
            whole = _between(before, key, outside=True)
            pairs[-1] = own, yaml.ScalarNode("tag:yaml.org,2002:str", whole, before.start_mark, key.end_mark)
            cut[own] = whole
        else:
            pairs.append((key, value))
    return pairs, list(cut.items())


def _between(first: yaml.Node, second: yaml.Node, *, outside: bool = False) -> str:
    """The text between two nodes, or from the first one's beginning to the second one's end."""
    begin, end = (first.start_mark, second.end_mark) if outside else (first.end_mark, second.start_mark)
    return str(begin.buffer or "")[begin.pointer : end.pointer]


def in_quotes(text: str) -> str:
    """A text as a value in quotes."""
    quote = '"' if "'" in text or '"' not in text else "'"
    return f"{quote}{text}{quote}" if quote not in text else "'" + text.replace("'", "''") + "'"
