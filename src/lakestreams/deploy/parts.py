"""The files of a bundle and their shape: YAML without double keys, sections that are mappings, patterns of files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from lakestreams.errors import BundleInvalid, ConfigUnreadable


class _Strict(yaml.SafeLoader):
    """YAML in which a later key does not silently win over an earlier one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice[0]} appears twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping.

    Raises:
        ConfigUnreadable: if it is missing, no YAML, no mapping, or has a key twice.
    """
    try:
        found = yaml.load(file.read_text(encoding="utf-8"), _Strict)  # noqa: S506 - a SafeLoader
    except FileNotFoundError:
        msg = f"there is no file {file.name} in {file.parent}"
        raise ConfigUnreadable(msg, hint="--bundle FOLDER names the bundle; lakestreams init makes one") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        msg = f"{file.name} cannot be read: {error}"
        raise ConfigUnreadable(msg, where=str(file)) from None
    return mapping(found, file.name)


def mapping(value: Any, what: str) -> dict[str, Any]:
    """A part of a bundle.

    Raises:
        ConfigUnreadable: if it is no mapping.
    """
    if not isinstance(value, dict):
        msg = f"{what} is no mapping"
        raise ConfigUnreadable(msg)
    return value


def section(value: Any, what: str) -> dict[str, Any]:
    """A mapping that may be empty: YAML has null where everything below a key is a comment."""
    return {} if value is None else mapping(value, what)


def overrides_of_this_machine(root: Path, target: str) -> dict[str, Any]:
    """Values of variables that one machine has for itself.

    Raises:
        ConfigUnreadable: if its file is no JSON mapping.
    """
    file = root / ".databricks" / "bundle" / target / "variable-overrides.json"
    if not file.is_file():
        return {}
    try:
        return mapping(json.loads(file.read_text(encoding="utf-8")), file.name)
    except (OSError, ValueError) as error:
        msg = f"{file.name} cannot be read: {error}"
        raise ConfigUnreadable(msg, where=str(file)) from None


def declared(resources: Any, where: str) -> dict[str, dict[str, Any]]:
    """Kind to key to resource, as a section `resources` has them.

    Args:
        resources: the section.
        where: what it is, for messages.

    Raises:
        ConfigUnreadable: if a part is no mapping.
    """
    kinds = section(resources, where)
    return {
        kind: {key: mapping(one, f"{where}.{kind}.{key}") for key, one in section(items, f"{where}.{kind}").items()}
        for kind, items in kinds.items()
    }


def without_nulls(part: Any) -> Any:
    """A part without what is null, which the Databricks CLI takes as not given."""
    if isinstance(part, dict):
        return {name: without_nulls(value) for name, value in part.items() if value is not None}
    if isinstance(part, list):
        return [without_nulls(value) for value in part if value is not None]
    return part


def included(root: Path, main: str, config: Mapping[str, Any]) -> Iterator[tuple[str, list[Path], bool]]:
    """Each pattern of `include`, the files that it adds, and whether it matches any, as the Databricks CLI reads it: `**` is one folder, as `*` is.

    Args:
        root: the bundle's folder.
        main: the file that `include` stands in.
        config: what it says.

    Raises:
        BundleInvalid: for what is no relative path.
    """
    patterns, seen = config.get("include") or [], {root / main}
    for pattern in patterns if isinstance(patterns, list) else [patterns]:
        if not isinstance(pattern, str) or not pattern or pattern.startswith("/"):
            hint = "a path relative to databricks.yml, such as resources/*.yml"
            raise BundleInvalid(f"include: {pattern!r} is no relative path", hint, main)
        matching = sorted(root.glob(pattern.replace("**", "*")))
        added = [file for file in matching if file not in seen]
        seen.update(added)
        yield pattern, added, bool(matching)


def unmatched_excludes(root: Path, config: Mapping[str, Any]) -> list[str]:
    """The patterns of `sync.exclude` that match nothing; they are those of a .gitignore."""
    patterns = section(config.get("sync"), "sync").get("exclude") or []
    return [f"sync.exclude: {one}" for one in patterns if not _matches(root, str(one))]


def _matches(root: Path, pattern: str) -> bool:
    path = pattern.removeprefix("!")
    anywhere = "/" not in path.strip("/") and not path.startswith("/")  # a name without a folder is looked for in all
    try:
        found = root.rglob(path) if anywhere else root.glob(path.lstrip("/"))
        return any(True for _ in found)
    except ValueError:  # git's patterns may say more than Python's
        return True
