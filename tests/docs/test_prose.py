"""What people read is plain English: few long sentences, and none of the words that only this project knew.

The notes on decisions have a form of their own: they count where all sentences do, and page by page they do not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APART = {"decisions"}
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in APART),
]
WORDS = 25
SHARE = 0.05
SHARE_OF_A_PAGE = 0.10
FEWEST = 20
"""Sentences of a page from which on its own share counts."""

PRIVATE = (
    r"anew",
    r"beside",
    r"dataflow",
    r"fates?",
    r"for who knows",
    r"goes on from there",
    r"in vain",
    r"mend(s|ed|ing)?",
    r"no use for",
    r"none of them is",
    r"of (its|one's) own accord",
    r"one's own",
    r"opinion",
    r"passing",
    r"put right",
    r"stands? in for",
    r"there is none of",
    r"told|tells? of",
    r"upkeep",
    r"what is (here|there) is",
    r"whoever",
    # "a" for "per", where it is not a time: "a row a key", "one commit a cycle"
    r"(one|an? \w+) an? (batch|cycle|file|group|job|key|node|partition|record|region|round|row|rule|source|table|task|topic)",
)
_PRIVATE = re.compile(rf"\b(?:{'|'.join(PRIVATE)})\b", re.IGNORECASE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"``[^`].*?``|`[^`]*`")
_ITEM = re.compile(r"^(?:[-*]|\d+\.) ")


def prose(page: Path) -> str:
    """The page without what is no sentence: code and comments."""
    return _COMMENT.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, items of lists, and cells of tables."""
    lines: list[str] = []
    for line in (*map(str.strip, text.splitlines()), ""):
        if not line or line.startswith(("#", "|")) or _ITEM.match(line):
            yield " ".join(lines)
            lines = []
        if line.startswith("|"):
            yield from re.split(r"(?<!\\)\|", line)
        elif line and not line.startswith("#"):
            lines.append(_ITEM.sub("", line, count=1))


def sentences(page: Path) -> list[list[str]]:
    """The words of each sentence; code is one word, and two words are no sentence."""
    found = []
    for block in blocks(prose(page)):
        plain = _CODE.sub("`", _LINK.sub(r"\1", block)).replace("*", "")
        for sentence in re.split(r"(?<=[.!?])\)? +", plain):
            words = [word for word in sentence.split() if re.search(r"[\w`]", word)]
            if sum(word.strip(",;:()") != "`" for word in words) > 2:
                found.append(words)
    return found


def test_the_measure_sees_what_it_should(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading is none\n\nOne sentence of `some code` here. And [a link](to/a.md) in\nanother one!\n\n"
        "- an item of three words\n\n| a cell of some words | `a`, `b` |\n\n```python\nx = 1  # no prose at all here\n```\n",
        encoding="utf-8",
    )
    assert [len(words) for words in sentences(page)] == [5, 6, 5, 5]
    assert _PRIVATE.search("one row a key, beside it")
    assert not _PRIVATE.search("two runs a day, a file of a run")


def test_few_sentences_are_long() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    every = [words for page in (*PAGES, *decisions) for words in sentences(page)]
    long = [words for words in every if len(words) > WORDS]
    assert len(every) > 5_000
    assert len(long) < SHARE * len(every), "\n".join(" ".join(words) for words in long)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_plain(page: Path) -> None:
    every = sentences(page)
    long = [" ".join(words) for words in every if len(words) > WORDS]
    assert len(every) < FEWEST or len(long) <= SHARE_OF_A_PAGE * len(every), "\n".join(long)
    text = _CODE.sub("`", _LINK.sub(r"\1", prose(page)))
    assert [found[0] for found in _PRIVATE.finditer(text)] == [], "plain words instead"


# --- what commands say -----------------------------------------------------------------------------------------------

_SCHEMA = re.compile(r"\b(string|bigint|int|boolean|array<|map<|struct<)")
KEPT = ("second opinion",)
"""An option's name."""


def messages(source: str) -> Iterator[str]:
    """The texts of a file that may be shown: strings of at least three words, but for docstrings and schemas."""
    tree = ast.parse(source)
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "`" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            text = node.value
        else:
            continue
        if len(re.findall(r"\b[A-Za-z]{2,}", text)) > 2 and len(text.split()) > 2 and not _SCHEMA.search(text):
            yield text


def test_the_messages_of_a_file_are_found() -> None:
    source = 'def f(x):\n    """A docstring is no message."""\n    say(f"{x} is told of it")\n    say("a string, b bigint, c int")\n'
    assert list(messages(source)) == ["` is told of it"]


def test_messages_are_in_the_fields_words() -> None:
    found = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        for text in messages(file.read_text(encoding="utf-8")):
            plain = re.sub("|".join(KEPT), "", text)
            found += [f"{file.name}: {word[0]!r} in {text!r}" for word in _PRIVATE.finditer(plain)]
    assert found == []


def test_help_is_in_the_fields_words() -> None:
    from typer.main import get_command

    from lakestreams.cli.app import app

    waiting, found = [("lakestreams", get_command(app))], []
    while waiting:
        name, command = waiting.pop()
        waiting += [(f"{name} {one}", inner) for one, inner in getattr(command, "commands", {}).items()]
        texts = [command.help, *(getattr(one, "help", None) for one in command.params)]
        for text in filter(None, texts):
            plain = re.sub("|".join(KEPT), "", " ".join(text.split()))
            found += [f"{name}: {word[0]!r} in {plain!r}" for word in _PRIVATE.finditer(plain)]
            found += [f"{name}: long: {one}" for one in re.split(r"(?<=[.;:]) ", plain) if len(one.split()) > WORDS]
    assert found == []
