"""Text of .proto files as messages: Protobuf's own compiler reads the text, in a process of its own."""

from __future__ import annotations

import base64
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lakestreams.errors import InvalidFormat, LocalPartsMissing
from lakestreams.formats.protobuf.schema import WIRE, Enum, Member, Message, Type
from lakestreams.formats.writers import Texts

_ROOT: Final = "lakestreams_schema.proto"
_HINT: Final = "a schema is the text of a .proto file"
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2}[A-Za-z0-9+/=]{2}\s*\Z")
_WITHIN_S: Final = 120
_MOST_LEVELS: Final = 50
# What compilers do not bring, and schemas import; registries know Confluent's, too.
_KNOWN: Final = {
    "google/type/date.proto": (
        'syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }'
    ),
}


@dataclass(frozen=True)
class Compiled:
    """What a text says.

    Attributes:
        names: the path of each message (its place in the file, then in its outer message) with its full name.
        raw: the descriptors of the file and of all that it imports.
    """

    names: tuple[tuple[tuple[int, ...], str], ...]
    raw: bytes


@dataclass(frozen=True)
class File:
    """A file of a schema.

    Attributes:
        name: by which others import it; "" of the schema itself.
        text: what stands in it.
        imports: the names of the given files that it imports.
    """

    name: str
    text: str
    imports: tuple[str, ...]


def files_of(texts: Texts) -> tuple[File, ...]:
    """The files of a schema that are not known to every compiler, each behind those that it imports, the schema last.

    Raises:
        InvalidFormat, LocalPartsMissing: as `compile_texts`.
    """
    given = dict(zip(texts[:-1:2], texts[1:-1:2], strict=True))
    raw = _library().FileDescriptorSet.FromString(compile_texts(texts).raw)
    names = {one.name: tuple(name for name in one.dependency if name in given) for one in raw.file}
    # the compiler gives each file behind those that it imports
    files = [File(one.name, given[one.name], names[one.name]) for one in raw.file if one.name in given]
    return (*files, File("", texts[-1], names[_ROOT]))


def message_of(texts: Texts, name: str | None) -> Message:
    """A message of a schema, with the types of all its fields.

    Args:
        texts: the .proto text behind those that it imports, each behind the name of its import.
        name: which message: its name, with or without package; None for the only one that is not inside another.

    Raises:
        InvalidFormat: if it is no schema, has no such message, or the message holds itself.
        LocalPartsMissing: if the compiler is not installed.
    """
    compiled = compile_texts(texts)
    return _Linker(compiled.raw).message(_chosen(compiled, name), ())


@lru_cache(maxsize=256)
def compile_texts(texts: Texts) -> Compiled:
    """A schema's messages.

    Raises:
        InvalidFormat: if it is no schema.
        LocalPartsMissing: if the compiler is not installed.
    """
    descriptors = _library()
    imports = dict(zip(texts[:-1:2], texts[1:-1:2], strict=True))
    raw = _run({**_KNOWN, **imports, _ROOT: texts[-1]})
    (file,) = [one for one in descriptors.FileDescriptorSet.FromString(raw).file if one.name == _ROOT]
    names: list[tuple[tuple[int, ...], str]] = []

    def collect(messages: Any, outer: tuple[int, ...], package: str) -> None:
        for place, one in enumerate(messages):
            full = f"{package}.{one.name}" if package else one.name
            names.append(((*outer, place), full))
            collect(one.nested_type, (*outer, place), full)

    collect(file.message_type, (), file.package)
    return Compiled(tuple(names), raw)


def _library() -> Any:
    """Protobuf's own descriptors.

    Raises:
        LocalPartsMissing: if they or the compiler are not installed.
    """
    lacking = [name for name in ("google.protobuf", "grpc_tools") if not _is_installed(name)]
    if lacking:
        msg = f"schemas of Protobuf are read with protobuf and grpcio-tools, and {' and '.join(lacking)} cannot be imported"
        raise LocalPartsMissing(msg, hint="pip install 'lakestreams[protobuf]'")
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - an extra

    return descriptor_pb2


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _run(files: Mapping[str, str]) -> bytes:
    """The descriptors that the compiler makes of these files."""
    with tempfile.TemporaryDirectory(prefix="lakestreams-proto-") as folder:
        compiled = _library().FileDescriptorSet()
        for name, text in files.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise _wrong(f"the import {name[:80]!r} leads out of the schema")
            ready = _compiled(name, text)
            if ready is not None:
                compiled.file.append(ready)
                continue
            try:
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text, encoding="utf-8")
            except (OSError, ValueError):
                raise _wrong(f"the import {name[:80]!r} is no file's name, or its text no text") from None
        out, ready_made = Path(folder) / "descriptors", Path(folder) / "compiled"
        spec = importlib.util.find_spec("grpc_tools")
        own = Path(spec.origin).parent / "_proto" if spec is not None and spec.origin else Path(folder)
        call = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{own}", "--include_imports"]
        if compiled.file:
            ready_made.write_bytes(compiled.SerializeToString())
            call.append(f"--descriptor_set_in={ready_made}")
        try:
            done = subprocess.run(
                [*call, f"--descriptor_set_out={out}", _ROOT],
                capture_output=True,
                text=True,
                timeout=_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _wrong(f"the compiler did not end within {_WITHIN_S} s") from None
        if done.returncode or not out.is_file():
            said = [one for one in done.stderr.splitlines() if _ROOT in one or "error" in one.lower()]
            raise _wrong(
                (said or done.stderr.splitlines() or ["no reason"])[0]
                .replace(f"{folder}/", "")
                .replace(f"{_ROOT}:", "line ")
            )
        return out.read_bytes()


def _compiled(name: str, text: str) -> Any:
    """The descriptor that a text is in Base64, as Confluent's serializers register schemas; None if it is a .proto text."""
    if not _BASE64.match(text):
        return None
    try:
        found = _library().FileDescriptorProto.FromString(base64.b64decode(text))
    except Exception:  # noqa: BLE001 - the library has errors of its own
        return None
    found.name = name
    return found


def _chosen(compiled: Compiled, name: str | None) -> str:
    names = [full for _, full in compiled.names]
    if name is None:
        outer = [full for path, full in compiled.names if len(path) == 1]
        if len(outer) == 1:
            return outer[0]
        raise InvalidFormat(
            f"the schema has {len(outer)} messages: {', '.join(outer)}" if outer else "the schema has no message",
            hint="message: names the one that records are",
        )
    found = [full for full in names if full == name] or [full for full in names if full.endswith(f".{name}")]
    if len(found) != 1:
        msg = f"the schema has {'several messages' if found else 'no message'} {name!r}"
        raise InvalidFormat(msg, hint=f"one of {', '.join(names)}")
    return found[0]


class _Linker:
    """Puts the types of fields into them."""

    def __init__(self, raw: bytes) -> None:
        self._proto = _library()
        self._messages: dict[str, tuple[Any, str]] = {}
        self._enums: dict[str, Enum] = {}
        self._messages_by_name: dict[str, Message] = {}
        for file in self._proto.FileDescriptorSet.FromString(raw).file:
            syntax = file.syntax or "proto2"
            self._collect(file, file.package, syntax)

    def _collect(self, outer: Any, package: str, syntax: str) -> None:
        inner = outer.message_type if hasattr(outer, "message_type") else outer.nested_type
        for one in outer.enum_type:
            names: dict[int, str] = {}
            for value in one.value:
                names.setdefault(value.number, value.name)
            full = f"{package}.{one.name}".lstrip(".")
            self._enums[full] = Enum(full, tuple(names.items()))
        for one in inner:
            full = f"{package}.{one.name}".lstrip(".")
            self._messages[full] = (one, syntax)
            self._collect(one, full, syntax)

    def message(self, full: str, inside: tuple[str, ...]) -> Message:
        if full in inside or len(inside) > _MOST_LEVELS:
            msg = f"a table has no column for message {full.rpartition('.')[2]} inside of itself"
            raise InvalidFormat(msg, hint="leave the field out of the schema that is declared")
        if full not in self._messages_by_name:
            found, syntax = self._messages[full]
            if syntax not in ("proto2", "proto3"):
                raise _wrong(f"{full} is of the syntax {syntax}; proto2 and proto3 are read")
            members = tuple(self._member(one, syntax, (*inside, full)) for one in found.field)
            self._messages_by_name[full] = Message(full, members)
        return self._messages_by_name[full]

    def _member(self, one: Any, syntax: str, inside: tuple[str, ...]) -> Member:
        repeated = one.label == one.LABEL_REPEATED
        entry = self._messages.get(one.type_name.lstrip(".")) if one.type == one.TYPE_MESSAGE else None
        if entry is not None and entry[0].options.map_entry:
            key, value = sorted(entry[0].field, key=lambda inner: inner.number)
            return Member(one.number, one.name, self._type(value, inside), key=self._word(key))
        kind = self._type(one, inside)
        is_oneof = one.HasField("oneof_index") and not one.proto3_optional
        is_plain = syntax == "proto3" and not one.proto3_optional and not is_oneof and not isinstance(kind, Message)
        is_number = isinstance(kind, Enum) or (isinstance(kind, str) and kind not in ("string", "bytes"))
        says = one.options.HasField("packed")
        return Member(
            one.number,
            one.name,
            kind,
            repeated=repeated,
            has_presence=not repeated and not is_plain,
            required=one.label == one.LABEL_REQUIRED,
            default=_default(one, kind) if one.HasField("default_value") else None,
            oneof=one.oneof_index if is_oneof else None,
            packed=repeated and is_number and (one.options.packed if says else syntax == "proto3"),
        )

    def _type(self, one: Any, inside: tuple[str, ...]) -> Type:
        name = one.type_name.lstrip(".")
        if one.type == one.TYPE_ENUM:
            return self._enums[name]
        if one.type == one.TYPE_MESSAGE:
            return self.message(name, inside)
        if one.type == one.TYPE_GROUP:
            msg = f"a table has no column for group {one.name}"
            raise InvalidFormat(msg, hint="leave it out of the schema that is declared: it is passed over in the bytes")
        return self._word(one)

    def _word(self, one: Any) -> str:
        word = str(one.Type.Name(one.type)).removeprefix("TYPE_").lower()
        if word not in WIRE:
            raise _wrong(f"field {one.name} has the unknown type {word}")
        return word


def _default(one: Any, kind: Type) -> str | int | float | bool | bytes:
    """A default that proto2 says, which descriptors have as text."""
    text = str(one.default_value)
    if kind == "bytes":
        return text.encode("latin-1").decode("unicode_escape").encode("latin-1")
    if kind == "bool":
        return text == "true"
    if kind in ("double", "float"):
        return float(text)
    return text if isinstance(kind, Enum) or kind == "string" else int(text)


def _wrong(what: str) -> InvalidFormat:
    return InvalidFormat(f"the schema of Protobuf cannot be used: {what.strip()[:300]}", hint=_HINT)


__all__ = ["Compiled", "File", "compile_texts", "files_of", "message_of"]
