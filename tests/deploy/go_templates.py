"""Renders the few marks of Go that our template of `databricks bundle init` uses, as the CLI does; refuses all others.

`{{.name}}`, `{{bundle_uuid}}`, `{{if CONDITION}}...{{else}}...{{end}}`, `{{skip "path"}}`, `{{fail "text"}}`. A condition is `.name`,
`eq .name "text"`, `not (CONDITION)`, `or (CONDITION) ...`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_MARK = re.compile(r'\{\{((?:"(?:[^"\\]|\\.)*"|[^"{}])*)\}\}')
_TOKEN = re.compile(r'\s*(\(|\)|\.?\w+|"(?:[^"\\]|\\.)*")')


class NotRendered(Exception):
    """A mark that this renderer does not know, or a text that refuses the answers."""


@dataclass
class Rendering:
    """The answers to a template's questions, and what its files ask to leave out."""

    answers: Mapping[str, str]
    uuid: str = "uuid"
    skipped: set[str] = field(default_factory=set)

    def folder(self, template: Path) -> dict[str, str]:
        """The text of each file that the template makes, by path."""
        made = {}
        for file in sorted(template.rglob("*")):
            if file.is_file():
                name = self.text(file.relative_to(template).as_posix())
                text = file.read_text(encoding="utf-8")
                if name.endswith(".tmpl"):
                    name, text = name.removesuffix(".tmpl"), self.text(text, name.rpartition("/")[0])
                made[name] = text
        unknown = self.skipped - made.keys()
        if unknown:
            msg = f"skipped, and not there: {sorted(unknown)}"
            raise NotRendered(msg)
        return {name: text for name, text in made.items() if name not in self.skipped}

    def text(self, text: str, folder: str = "") -> str:
        """A text with its marks replaced; `folder` is where its `skip` begins."""
        parts = _MARK.split(text)
        for plain in parts[::2]:
            if "{{" in plain or "}}" in plain:
                msg = f"a mark that does not end or begin: {plain!r}"
                raise NotRendered(msg)
        out: list[str] = []
        taken: list[tuple[bool, bool]] = []  # of each open `if`: whether it holds, and whether its `else` was met
        for place, part in enumerate(parts):
            holds = all(one for one, _ in taken)
            if place % 2 == 0:
                out.append(part if holds else "")
            elif part.startswith("if "):
                taken.append((holds and self._condition(part[3:]), False))
            elif part == "else" and taken and not taken[-1][1]:
                taken[-1] = (not taken[-1][0], True)
            elif part == "end" and taken:
                taken.pop()
            else:
                out.append(self._value(part, folder, holds=holds))
        if taken:
            msg = "an `if` without `end`"
            raise NotRendered(msg)
        return "".join(out)

    def _value(self, mark: str, folder: str, *, holds: bool) -> str:
        verb, _, argument = mark.partition(" ")
        if verb in {"skip", "fail"} and argument.startswith('"'):
            told = json.loads(argument)
            if holds and verb == "fail":
                raise NotRendered(told)
            if holds:
                self.skipped.add(self.text(f"{folder}/{told}".lstrip("/")))
            return ""
        if mark == "bundle_uuid":
            return self.uuid
        if re.fullmatch(r"\.\w+", mark):
            return self.answers[mark[1:]]
        msg = f"a mark of Go that is not rendered here: {mark!r}"
        raise NotRendered(msg)

    def _condition(self, text: str) -> bool:
        if not re.fullmatch(rf"(?:{_TOKEN.pattern})+", text):
            msg = f"a condition of Go that is not read here: {text!r}"
            raise NotRendered(msg)
        return self._all_of(_TOKEN.findall(text))

    def _all_of(self, tokens: list[str]) -> bool:
        rest = iter(tokens)
        found = self._evaluated(rest)
        if more := list(rest):
            msg = f"more than a condition: {more}"
            raise NotRendered(msg)
        return found

    def _evaluated(self, tokens: Iterator[str]) -> bool:
        first = next(tokens)
        if first.startswith("."):
            return bool(self.answers[first[1:]])
        if first == "eq":
            name, text = next(tokens), next(tokens)
            return self.answers[name[1:]] == json.loads(text)
        if first == "not":
            return not self._inside(tokens, next(tokens))
        if first == "or":
            found = [self._inside(tokens, opened) for opened in tokens]
            return any(found)
        msg = f"a condition of Go that is not read here: {first!r}"
        raise NotRendered(msg)

    def _inside(self, tokens: Iterator[str], opened: str) -> bool:
        inner = []
        depth = 1
        while depth:
            token = next(tokens, None)
            if token is None or opened != "(":
                msg = f"a condition outside parentheses: {opened!r}"
                raise NotRendered(msg)
            depth += (token == "(") - (token == ")")
            inner.append(token)
        return self._all_of(inner[:-1])
