"""`lakestreams registry pull`: a version of a subject as a file, which pipelines name as the schema that they read by."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rich.text import Text

from lakestreams.cli.screen import Screen
from lakestreams.config.registry import load_registry
from lakestreams.errors import InvalidOption, SchemaMissing
from lakestreams.formats import JsonSchema
from lakestreams.formats.avro.schema import parse
from lakestreams.formats.protobuf.compiling import compile_texts
from lakestreams.formats.writers import ENDINGS, JSON, KEYS, PROTOBUF
from lakestreams.registry.client import Registered, Registry
from lakestreams.run import failure
from lakestreams.visible import visible


def pull(screen: Screen, subject: str, version: int | None, sources: Path, out: Path | None) -> int:
    """Writes it and says how it is named; returns the exit code."""
    options = load_registry(sources)
    screen.secrets.add(options)
    with screen.working("asking the registry"):
        registered = Registry(options).version(subject, "latest" if version is None else version)
    content, ending = _content(registered), ENDINGS[registered.schema.kind]
    file = out or sources.parent / "schemas" / f"{_plain(subject)}.v{registered.version}{ending}"
    if file.suffix != ending:
        raise InvalidOption(
            f"{file} does not end with {ending}", hint=f"schemas are named so: {file.with_suffix(ending)}"
        )
    exists = file.is_file()
    if exists and _other(file, content, ending):
        raise InvalidOption(f"{file} has another schema", hint="remove it, or name another file with --out")
    if not exists:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_as_text(content, ending), encoding="utf-8")
    said = "there already" if exists else "written"
    screen.say(Text.assemble((said, "bold green"), f"  {file}: version {registered.version} of {visible(subject)}"))
    named = Path(os.path.relpath(file, sources.parent)).as_posix()
    screen.say(f"  in {sources.name}: {{{KEYS[registered.schema.kind]}: {named}}}")
    result = {"subject": subject, "version": registered.version, "id": registered.id, "file": str(file)}
    screen.result({"ok": True, "written": not exists, **result})
    return failure.OK


def _content(registered: Registered) -> object:
    """The schema as JSON, that of Protobuf as text, if it can be declared as it is.

    Raises:
        SchemaMissing: if it is of no kind that is read, or refers to other schemas of the registry.
        InvalidFormat: if it is none.
    """
    what = f"version {registered.version} of subject {registered.subject}"
    if registered.schema.kind not in ENDINGS:
        raise SchemaMissing(
            f"{what} is {registered.schema.kind}, not {' or '.join(ENDINGS)}", hint="name another subject"
        )
    if registered.schema.references:
        hint = "write the schema into a file with those types in it, each where it is used first"
        raise SchemaMissing(f"{what} refers to other schemas of the registry", hint=hint)
    text = registered.schema.text
    if registered.schema.kind == PROTOBUF:
        compile_texts((text,))
        return text
    if registered.schema.kind == JSON:
        JsonSchema(text)
    else:
        parse(text)
    return json.loads(text) if text.lstrip()[:1] in ("{", "[", '"') else text


def _as_text(content: object, ending: str) -> str:
    return str(content) if ending == ENDINGS[PROTOBUF] else json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _other(file: Path, content: object, ending: str) -> bool:
    if ending == ENDINGS[PROTOBUF]:
        return file.read_text(encoding="utf-8") != content
    try:
        return bool(json.loads(file.read_text(encoding="utf-8")) != content)
    except ValueError:
        return True


def _plain(subject: str) -> str:
    """A subject as part of a file's name: subjects may have any characters, such as slashes."""
    return "".join(sign if sign.isalnum() or sign in "._-" else "_" for sign in subject).lstrip(".") or "_"


__all__ = ["pull"]
