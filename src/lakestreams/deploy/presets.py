"""What a target's mode and presets make of its resources: prefixes, tags, paused triggers, runs at a time, defaults."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

TRIGGERS: Final = ("schedule", "continuous", "trigger")
_DEVELOPMENT_RUNS: Final = 4


def apply_presets(
    resources: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any], short_name: str
) -> dict[str, dict[str, Any]]:
    """The resources as a deployment names and starts them.

    What an object says itself wins: a `pause_status` or `max_concurrent_runs` that is written out is never changed,
    which is why ours are not written out. Schemas get the prefix of development mode, volumes do not.

    Args:
        resources: kind to key to resource.
        config: the rest of the bundle: `mode`, `presets`, `experimental`, `workspace`.
        short_name: of who deploys.
    """
    made = {kind: {key: copy.deepcopy(item) for key, item in items.items()} for kind, items in resources.items()}
    development = config.get("mode") == "development"
    presets: Mapping[str, Any] = config.get("presets") or {}
    prefix = name_prefix(config, short_name)
    tags = dict(presets.get("tags") or {}) | ({"dev": short_name} if development else {})
    paused = presets.get("trigger_pause_status", "PAUSED" if development else "UNPAUSED")
    runs = presets.get("jobs_max_concurrent_runs", _DEVELOPMENT_RUNS if development else 1)
    for key, job in made.get("jobs", {}).items():
        job["name"] = f"{prefix}{job.get('name', key)}"
        if tags:
            job["tags"] = tags | (job.get("tags") or {})
        job.setdefault("max_concurrent_runs", runs)
        for name in TRIGGERS:
            if isinstance(job.get(name), dict):
                job[name].setdefault("pause_status", paused)
    for key, dashboard in made.get("dashboards", {}).items():
        dashboard["display_name"] = f"{prefix}{dashboard.get('display_name', key)}"
        dashboard.setdefault("parent_path", config["workspace"]["resource_path"])
        dashboard.setdefault("embed_credentials", False)
    if not (config.get("experimental") or {}).get("skip_name_prefix_for_schema"):
        for schema in made.get("schemas", {}).values():
            schema["name"] = f"{_as_name(prefix)}{schema.get('name')}"
    return made


def name_prefix(config: Mapping[str, Any], short_name: str) -> str:
    """What a target puts before the names of jobs and dashboards."""
    default = f"[dev {short_name}] " if config.get("mode") == "development" else ""
    given = (config.get("presets") or {}).get("name_prefix")
    return default if given is None else str(given)


def _as_name(prefix: str) -> str:
    words = "_".join(re.findall(r"[A-Za-z0-9]+", prefix))
    return f"{words}_" if words else ""
