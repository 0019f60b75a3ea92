"""Reads a bundle as the CLI does, as far as it goes without a workspace: includes, targets, variables, references."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
# What only a workspace or a deployment knows; any text will do here.
WORKSPACE = {
    "workspace.file_path": "/Workspace/bundle/files",
    "workspace.current_user.userName": "ada@example.com",
    "workspace.current_user.short_name": "ada",
}
COMPUTED = {"jobs": ("id",), "schemas": ("id",), "volumes": ("id", "volume_path")}


@dataclass
class Bundle:
    """A bundle for one target.

    Attributes:
        root: the folder of databricks.yml.
        config: everything but the resources, references resolved.
        resources: kind to key to resource, references resolved.
        files: resource (`jobs.enrichment`) to the folder of its file; relative paths start there.
        dangling: references that lead nowhere.
    """

    root: Path
    config: dict[str, Any]
    resources: dict[str, dict[str, Any]]
    files: dict[str, Path]
    dangling: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> dict[str, Any]:
        return self.resources.get("jobs", {})


def targets(root: Path) -> list[str]:
    return list(_read(root / "databricks.yml")["targets"])


def load(root: Path, target: str, overrides: Mapping[str, str] | None = None) -> Bundle:
    """The bundle of a target; `overrides` are what `--var` or BUNDLE_VAR_<name> would give."""
    config = _read(root / "databricks.yml")
    chosen = config["targets"][target] or {}
    resources, files = _resources(root, config)
    _merge(resources, chosen.get("resources", {}))
    values = {name: spec.get("default") for name, spec in config.get("variables", {}).items()}
    dangling = [f"targets.{target}.variables.{name}" for name in chosen.get("variables", {}) if name not in values]
    values |= chosen.get("variables", {})
    values |= overrides or {}
    known = WORKSPACE | {"bundle.name": config["bundle"]["name"], "bundle.target": target}
    known |= {f"var.{name}": value for name, value in values.items() if value is not None}
    known |= {
        f"resources.{kind}.{key}.{name}": value
        for kind, items in resources.items()
        for key, item in items.items()
        for name, value in (dict.fromkeys(COMPUTED.get(kind, ()), f"<{kind}.{key}>") | item).items()
    }
    kept = {name: part for name, part in config.items() if name not in ("targets", "resources", "variables")}
    _merge(kept, {name: part for name, part in chosen.items() if name not in ("resources", "variables")})
    return Bundle(
        root, _resolved(kept, known, dangling, ()), _resolved(resources, known, dangling, ()), files, dangling
    )


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def _resources(root: Path, config: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
    resources: dict[str, dict[str, Any]] = {}
    files: dict[str, Path] = {}
    included = [file for pattern in config.get("include", []) for file in sorted(root.glob(pattern))]
    for file in (root / "databricks.yml", *included):
        for kind, items in _read(file).get("resources", {}).items():
            for key, item in items.items():
                assert key not in resources.get(kind, {}), f"{kind}.{key} stands in two files"
                resources.setdefault(kind, {})[key] = copy.deepcopy(item)
                files[f"{kind}.{key}"] = file.parent
    return resources, files


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)


def _resolved(part: Any, known: Mapping[str, Any], dangling: list[str], within: tuple[str, ...]) -> Any:
    if isinstance(part, dict):
        return {name: _resolved(value, known, dangling, within) for name, value in part.items()}
    if isinstance(part, list):
        return [_resolved(value, known, dangling, within) for value in part]
    if not isinstance(part, str):
        return part
    whole = REFERENCE.fullmatch(part)
    if whole:  # a whole value keeps its type
        return _value(whole[1], known, dangling, within)
    return REFERENCE.sub(lambda found: str(_value(found[1], known, dangling, within)), part)


def _value(name: str, known: Mapping[str, Any], dangling: list[str], within: tuple[str, ...]) -> Any:
    if name not in known or name in within:
        dangling.append(name)
        return f"${{{name}}}"
    return _resolved(known[name], known, dangling, (*within, name))
