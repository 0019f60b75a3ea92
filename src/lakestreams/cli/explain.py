"""`lakestreams explain`: what an error means, from the class that has its code; what files may say, from their types."""

from __future__ import annotations

import difflib
from typing import Final

from rich.text import Text

from lakestreams.cli.screen import Screen
from lakestreams.config.reference import cases_part, pipelines_part
from lakestreams.config.schema import expressions_part, kafka_part
from lakestreams.errors import LakestreamsError, UnknownReference, catalogue, meaning
from lakestreams.run import failure

_PAGES: Final = {
    "cases": cases_part,
    "expressions": expressions_part,
    "kafka-options": kafka_part,
    "pipelines": pipelines_part,
}


def run(screen: Screen, code: str) -> int:
    """Says it; returns the exit code.

    Raises:
        UnknownReference: if there is no such code.
    """
    if code in _PAGES:
        screen.say(Text(_PAGES[code]().rstrip()))
        screen.result({"page": code, "text": _PAGES[code]()})
        return failure.OK
    classes: list[type[LakestreamsError]] = [LakestreamsError, *catalogue()]
    known = {one.code: one for one in classes}
    cls = known.get(code.upper())
    if cls is None:
        near = difflib.get_close_matches(code.upper(), known, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"they are {min(known)} to {max(known)}; pages: {', '.join(_PAGES)}"
        )
        raise UnknownReference(f"there is no error {code}", hint=hint)
    screen.say(Text(f"{cls.code} {cls.name}", style="bold red"))
    screen.say(f"\n{meaning(cls)}\n")
    screen.say(Text(f"Fix: {cls.hint}", style="green"))
    if cls.hint_in_files is not None:
        screen.say(Text(f"In a file: {cls.hint_in_files}", style="green"))
    screen.result({"code": cls.code, "name": cls.name, "meaning": meaning(cls), "hint": cls.hint})
    return failure.OK
