"""Faults of the Python DSL in the words of the files: `within: 5 minutes` for `within="5 minutes"`.

A file is declared with the same builder as a Python topology, so what is wrong with it is said there, once. Here it gets
the line of the key that it is about, and its hint becomes one that can be typed into a file.
"""

from __future__ import annotations

import re
from typing import Final

from lakestreams.config.load import Document, KeyPath
from lakestreams.errors import LakestreamsError

_PHRASES: Final = (
    ("table(..., as_of=True, history=...)", "kind: table and a history"),
    ("with table(...)", "as kind: table"),
    ("leave as_of out", "leave history out"),
    ("pass name=... on all but one", "rename all but one of them"),
    ("pass a name that is not empty", "give it a name"),
    ('StreamsBuilder("page_views")', "pipeline: page_views"),
)
_FORMS: Final = (
    # an option that a join does not take: its value, a function perhaps, says nothing
    (re.compile(r"^(\w+)=.* is no option of this join", re.DOTALL), r"\1 is no option of this join"),
    (re.compile(r"(\w+)\(\.\.\.\)"), r"\1"),
    (re.compile(r"(\w+)=(?:\"([^\"]*)\"|'([^']*)')"), lambda found: f"{found[1]}: {found[2] or found[3] or ''}"),
    (re.compile(r"(\w+)=(\d[\d_]*)"), lambda found: f"{found[1]}: {found[2].replace('_', '')}"),
    (re.compile(r"(\w+)=(?=[ ,;)]|$)"), r"\1"),
)


def placed(fault: LakestreamsError, document: Document, path: KeyPath) -> LakestreamsError:
    """The fault in the words of the file, at the line of the key that its message begins with.

    Args:
        fault: what the builder, or a handle of it, has to say.
        path: to the source, step or output that the fault is about.
    """
    word = re.match(r"\w+", fault.message)
    keys = [key for key in document.lines if word and key[: len(path)] == path and len(key) > len(path)]
    about = [key for key in keys if word and key[-1] == word[0]]
    fault.message = in_words_of_files(fault.message)
    fault.hint = in_words_of_files(fault.hint)
    fault.where = document.where(min(about, key=len, default=path))
    return fault


def in_words_of_files(text: str) -> str:
    """What a message or hint says with options as Python gives them, as a file gives them."""
    for python, file in _PHRASES:
        text = text.replace(python, file)
    for pattern, form in _FORMS:
        text = pattern.sub(form, text)
    return text
