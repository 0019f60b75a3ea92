"""A bundle as it stands in its files, resolved for one target: includes, target overrides, variables, references.

What the Databricks CLI does before it calls anybody, as far as the jobs of this package need it; so that a bundle can be
checked, compared and deployed in tests on a machine that has neither the CLI nor a workspace. Rules followed are those of
CLI 1.13: `${bundle...}`, `${workspace...}` and `${var...}` first, then the target's mode and presets, `${resources...}` last.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lakestreams.deploy.parts import (
    declared,
    included,
    mapping,
    overrides_of_this_machine,
    read_yaml,
    section,
    unmatched_excludes,
    without_nulls,
)
from lakestreams.deploy.presets import apply_presets
from lakestreams.errors import BundleInvalid

FILE: Final = "databricks.yml"
REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
# Lists whose items a target overrides one by one, and by which key; items of other lists are appended.
_KEYED: Final = {
    "tasks": "task_key",
    "job_clusters": "job_cluster_key",
    "environments": "environment_key",
    "parameters": "name",
}
# What only the workspace, git or the Databricks CLI know: accepted, and reported as not checked.
_ELSEWHERE: Final = re.compile(
    r"bundle\.git\.(branch|actual_branch|commit|origin_url|bundle_root_path)|bundle\.(deployment|uuid)(\..+)?"
    r"|workspace\.(host|profile|workspace_id|account_id|auth_type|current_user\.\w+(\..+)?)"
)
# What only a deployment knows of a resource.
_COMPUTED: Final = {"dashboards": ("id",), "jobs": ("id",), "schemas": ("id",), "volumes": ("id", "volume_path")}


@dataclass(frozen=True)
class User:
    """Who deploys; `name` is the e-mail address or, of a service principal, its application id."""

    name: str = "you@example.com"

    @property
    def short_name(self) -> str:
        """What the CLI makes of the name for prefixes and tags."""
        return re.sub(r"[\W_]+", "_", self.name.partition("@")[0].lower()).strip("_")  # letters of all alphabets stay


@dataclass(frozen=True)
class Bundle:
    """A bundle for one target.

    Attributes:
        root: the folder of databricks.yml.
        target: the target's name.
        user: who deploys.
        config: everything but resources and variables, references resolved; `workspace` has all its paths.
        variables: name to value, resolved.
        resources: kind to key to resource, mode and presets applied, references resolved.
        files: resource (`jobs.enrichment`) to the file it stands in; relative paths start at that file's folder.
        dangling: references that lead nowhere.
        unmatched: patterns of `include` and `sync.exclude` that match no file.
        doubled: resources that two files declare.
        unknown: references whose values are known elsewhere only: to git, to the workspace.
    """

    root: Path
    target: str
    user: User
    config: Mapping[str, Any]
    variables: Mapping[str, Any]
    resources: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, Path]
    dangling: tuple[str, ...]
    unmatched: tuple[str, ...]
    doubled: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def jobs(self) -> Mapping[str, Any]:
        """Key to job."""
        return self.resources.get("jobs", {})

    @property
    def dashboards(self) -> Mapping[str, Any]:
        """Key to dashboard."""
        return self.resources.get("dashboards", {})

    def where(self, resource: str) -> str:
        """The file of a resource, for messages, with the resource: `resources/verify.job.yml  jobs.verify`."""
        return f"{self.files[resource].relative_to(self.root).as_posix()}  {resource}"


def targets(root: Path) -> list[str]:
    """The names of the bundle's targets, in the order of the file.

    Raises:
        ConfigUnreadable: if there is no bundle.
    """
    return list(mapping(whole(root).get("targets"), "targets"))


def whole(root: Path) -> dict[str, Any]:
    """What databricks.yml and the files that it includes say together, resources apart.

    Raises:
        ConfigUnreadable: if a file is missing or no YAML, or a section is no mapping.
        BundleInvalid: if the bundle has no name, or includes what is no relative path.
    """
    config = _sections(read_yaml(root / FILE))
    for _, files, _ in included(root, FILE, config):
        for file in files:
            more = _sections(read_yaml(file))
            _merge(config, {name: part for name, part in more.items() if name not in ("resources", "include")})
    name = config.get("bundle", {}).get("name")
    if not isinstance(name, str):
        wrong = "there is none" if name is None else f"it is {name!r} and no text"
        raise BundleInvalid(f"bundle.name: {wrong}", 'a name, in quotes if YAML reads it otherwise: "no"', FILE)
    return config


def _target(config: Mapping[str, Any], target: str) -> dict[str, Any]:
    known_targets = mapping(config.get("targets"), "targets")
    if target not in known_targets:
        msg = f"{FILE} has no target {target!r}"
        raise BundleInvalid(msg, hint=f"name one of: {', '.join(known_targets)}", where=FILE)
    return _sections(section(known_targets[target], f"targets.{target}"))


def _sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says; a section of which everything is a comment is not there."""
    named = {name: part for name, part in config.items() if part is not None}
    return named | {name: mapping(named[name], name) for name in _SECTIONS if name in named}


_SECTIONS: Final = (
    "bundle",
    "experimental",
    "presets",
    "python",
    "run_as",
    "sync",
    "targets",
    "variables",
    "workspace",
)


def load(
    root: Path,
    target: str,
    variables: Mapping[str, str] | None = None,
    user: User | None = None,
    answers: Mapping[str, Any] | None = None,
    *,
    of_this_machine: bool = True,
) -> Bundle:
    """The bundle of a target.

    Args:
        root: the folder of databricks.yml.
        target: one of its targets.
        variables: what `--var` or `BUNDLE_VAR_<name>` would give.
        user: who deploys; a name that belongs to nobody by default.
        answers: values of references that are known elsewhere only, as the Databricks CLI tells them.
        of_this_machine: whether variables have the values that this machine alone gives them, in a file that git ignores.

    Raises:
        ConfigUnreadable: if a file is missing or no YAML, or has a key twice.
        BundleInvalid: if there is no such target.
    """
    config, user = whole(root), user or User()
    chosen = _target(config, target)
    raw, files, doubled, unmatched = _resources(root, config)
    own = declared(chosen.get("resources"), f"targets.{target}.resources")
    _merge(raw, own)
    for kind, items in own.items():  # what a target alone has
        files = {f"{kind}.{key}": root / FILE for key in items} | files
    rest = {name: part for name, part in config.items() if name not in ("targets", "resources", "variables")}
    _merge(rest, {name: part for name, part in chosen.items() if name not in ("resources", "variables")})
    unmatched += unmatched_excludes(root, rest)

    resolver = _Resolver(_names_of_the_bundle(rest, target), answers or {})
    overrides = (overrides_of_this_machine(root, target) if of_this_machine else {}) | dict(variables or {})
    values = _variables(config, chosen, overrides, target, resolver)
    resolver.known |= _names_of_the_user(user)
    resolver.known |= {f"var.{name}": value for name, value in values.items() if value is not None}
    rest["workspace"] = resolver.resolved(_workspace(rest.get("workspace") or {}))
    resolver.known |= {f"workspace.{name}": value for name, value in rest["workspace"].items()}
    rest = resolver.resolved(rest)
    raw = apply_presets(resolver.resolved(raw), rest, user.short_name)
    resolver.later = False
    resolver.declared = {f"resources.{kind}.{key}" for kind, items in raw.items() for key in items}
    resolver.known |= dict(_resource_fields(raw))
    return Bundle(
        root=root,
        target=target,
        user=user,
        config=resolver.resolved(rest),
        variables={name: resolver.resolved(value) for name, value in values.items()},
        resources=without_nulls(resolver.resolved(raw)),
        files=files,
        dangling=tuple(dict.fromkeys(resolver.dangling)),
        unmatched=tuple(unmatched),
        doubled=tuple(doubled),
        unknown=tuple(dict.fromkeys(resolver.unknown)),
    )


# --- files -----------------------------------------------------------------------------------------------------------


def _resources(
    root: Path, config: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Path], list[str], list[str]]:
    """Kind to key to resource; resource to file; resources that stand twice; includes that match nothing."""
    resources: dict[str, dict[str, Any]] = {}
    files: dict[str, Path] = {}
    doubled, unmatched, more = [], [], []
    for pattern, added, matches in included(root, FILE, config):
        more += added
        if not matches:
            unmatched.append(f"include: {pattern}")
    for file in (root / FILE, *more):
        for kind, items in declared(read_yaml(file).get("resources"), f"{file.name}: resources").items():
            for key, item in items.items():
                if key in resources.get(kind, {}):
                    doubled.append(f"{kind}.{key}")
                resources.setdefault(kind, {})[key] = copy.deepcopy(item)
                files[f"{kind}.{key}"] = file
    return resources, files, doubled, unmatched


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        existing = into.get(name)
        if value is None and existing is not None:  # nothing takes nothing away
            continue
        if isinstance(value, Mapping) and isinstance(existing, dict):
            _merge(existing, value)
        elif isinstance(value, list) and isinstance(existing, list):
            into[name] = _merged_lists(existing, value, _KEYED.get(name))
        else:
            into[name] = copy.deepcopy(value)


def _merged_lists(existing: list[Any], more: list[Any], key: str | None) -> list[Any]:
    merged = copy.deepcopy(existing)
    for item in more:
        keyed = key is not None and isinstance(item, Mapping)
        same = next((one for one in merged if keyed and isinstance(one, dict) and one.get(key) == item.get(key)), None)
        if same is None:
            merged.append(copy.deepcopy(item))
        else:
            _merge(same, item)
    return merged


# --- references ------------------------------------------------------------------------------------------------------


def _variables(
    config: Mapping[str, Any], chosen: Mapping[str, Any], overrides: Mapping[str, str], target: str, resolver: _Resolver
) -> dict[str, Any]:
    specs = config.get("variables") or {}
    values = {name: _default(name, spec, resolver) for name, spec in specs.items()}
    own = chosen.get("variables") or {}
    for name, value in own.items():  # a target says the value, or how it is found
        if isinstance(value, Mapping) and value.keys() & {"default", "lookup"} and value.keys() <= _OF_A_VARIABLE:
            own = own | {name: _default(name, value, resolver)}
    resolver.dangling += [f"targets.{target}.variables.{name}" for name in own if name not in values]
    resolver.dangling += [f"var.{name}" for name in overrides if name not in values]
    return values | own | dict(overrides)


def _names_of_the_bundle(config: Mapping[str, Any], target: str) -> dict[str, Any]:
    named = {f"bundle.{name}": value for name, value in config["bundle"].items() if not isinstance(value, dict | list)}
    return named | {"bundle.target": target, "bundle.environment": target, "bundle.mode": config.get("mode", "")}


def _names_of_the_user(user: User) -> dict[str, Any]:
    names = {"userName": user.name, "short_name": user.short_name, "domain_friendly_name": user.short_name}
    return {f"workspace.current_user.{name}": value for name, value in names.items()}


_OF_A_VARIABLE: Final = frozenset({"default", "description", "lookup", "type"})


def _default(name: str, spec: Mapping[str, Any] | None, resolver: _Resolver) -> Any:
    """A variable's value as it is declared; of a lookup, which asks the workspace, a reference to itself."""
    spec = section(spec, f"variables.{name}")
    if "lookup" in spec:
        resolver.looked_up.add(f"var.{name}")
        return None
    resolver.looked_up.discard(f"var.{name}")
    return spec.get("default")


def _workspace(written: Mapping[str, Any]) -> dict[str, Any]:
    home = "/Workspace/Users/${workspace.current_user.userName}"
    root = str(written.get("root_path", f"{home}/.bundle/${{bundle.name}}/${{bundle.target}}"))
    root = home + root[1:] if root.startswith("~/") else root
    below = {f"{name}_path": f"{root}/{folder}" for name, folder in _FOLDERS.items()}
    paths = below | dict(written) | {"root_path": root}
    return {name: _in_workspace(part) if name.endswith("_path") else part for name, part in paths.items()}


def _in_workspace(path: Any) -> Any:
    """A path as the CLI writes it: folders of the workspace have its prefix, whether the file says it or not."""
    absolute = isinstance(path, str) and path.startswith("/") and not path.startswith(("/Workspace/", "/Volumes/"))
    return f"/Workspace{path}" if absolute else path


_FOLDERS: Final = {"file": "files", "artifact": "artifacts", "state": "state", "resource": "resources"}


def _resource_fields(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """What `${resources.<kind>.<key>.<field>}` may name: the fields that are written, and those a deployment makes."""
    for kind, items in resources.items():
        for key, item in items.items():
            made = dict.fromkeys(_COMPUTED.get(kind, ()), f"<{kind}.{key}>")
            if kind == "volumes":
                made["volume_path"] = "/".join(
                    ("/Volumes", *(str(item.get(part)) for part in ("catalog_name", "schema_name", "name")))
                )
            for name, value in (made | item).items():
                yield f"resources.{kind}.{key}.{name}", value


@dataclass
class _Resolver:
    """Replaces references; `later` leaves those to resources for a second pass."""

    known: dict[str, Any]
    answers: Mapping[str, Any]
    later: bool = True
    dangling: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    looked_up: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def resolved(self, part: Any, within: tuple[str, ...] = ()) -> Any:
        if isinstance(part, dict):
            return {name: self.resolved(value, within) for name, value in part.items()}
        if isinstance(part, list):
            return [self.resolved(value, within) for value in part]
        if not isinstance(part, str):
            return part
        whole = REFERENCE.fullmatch(part)
        if whole:  # a whole value keeps its type
            return self._value(whole[1], within)
        return REFERENCE.sub(lambda match: str(self._value(match[1], within)), part)

    def _value(self, name: str, within: tuple[str, ...]) -> Any:
        if self.later and name.startswith("resources."):
            return f"${{{name}}}"
        value, found = _looked_up(self.known, name)
        if not found and self._elsewhere(name):
            if name in self.answers:
                return self.answers[name]
            self.unknown.append(name)
            return f"${{{name}}}"
        if not found or name in within:
            self.dangling.append(name)
            return f"${{{name}}}"
        return self.resolved(value, (*within, name))

    def _elsewhere(self, name: str) -> bool:
        """Whether git, the workspace or a deployment has a value for it."""
        kind, _, rest = name.removeprefix("resources.").partition(".")
        deployed = f"resources.{kind}.{rest.partition('.')[0]}" in self.declared and kind not in _COMPUTED
        return bool(_ELSEWHERE.fullmatch(name)) or name in self.looked_up or deployed


def _looked_up(known: Mapping[str, Any], name: str) -> tuple[Any, bool]:
    """A name, or a field of a known mapping: `var.cluster.node_type_id`."""
    if name in known:
        return known[name], True
    parent, _, last = name.rpartition(".")
    if parent and parent.count(".") >= 1:
        value, found = _looked_up(known, parent)
        if found and isinstance(value, Mapping) and last in value:
            return value[last], True
    return None, False
