"""The pipelines that a bundle's jobs run, read from the bundle's own folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestreams.bundle.read import Bundle
from lakestreams.config.compile import load_pipeline
from lakestreams.errors import LakestreamsError, unfold

if TYPE_CHECKING:
    from lakestreams.config.compile import Pipeline


def pipelines(bundle: Bundle) -> tuple[list[Pipeline], list[LakestreamsError]]:
    """The pipelines that tasks read from the bundle, each once, and the faults of those that cannot be used."""
    found: list[Pipeline] = []
    faults: list[LakestreamsError] = []
    for file, sources in dict.fromkeys(_named(bundle)):
        try:
            found.append(load_pipeline(file, sources))
        except LakestreamsError as error:
            faults += unfold(error)
    return found, faults


def secrets(bundle: Bundle, used: list[Pipeline]) -> list[tuple[str, str]]:
    """Scope and key of every secret that the pipelines refer to, in the scope in which the jobs look it up."""
    scopes = {named["secret-scope"] for named in _parameters(bundle) if named.get("secret-scope")}
    found = [secret for pipeline in used for secret in pipeline.kafka.secrets()]
    return list(dict.fromkeys((scope, key) for own, key in found for scope in (scopes or {own})))


def credentials(used: list[Pipeline]) -> list[str]:
    """The service credentials that the pipelines sign in to Kafka with, each once."""
    found = [pipeline.kafka.service_credential for pipeline in used if pipeline.kafka.bootstrap_servers is not None]
    return list(dict.fromkeys(one for one in found if one is not None))


def _named(bundle: Bundle) -> Iterator[tuple[Path, Path | None]]:
    synced = f"{bundle.config['workspace']['file_path']}/"
    for named in _parameters(bundle):
        sources = str(named.get("sources", ""))
        shared = bundle.root / sources.removeprefix(synced) if sources.startswith(synced) else None
        for one in str(named.get("pipeline", "")).split(","):
            if one.startswith(synced):
                yield bundle.root / one.removeprefix(synced), shared


def _parameters(bundle: Bundle) -> Iterator[Mapping[str, Any]]:
    """The named parameters of all tasks; what has another shape than a job's is a fault that `fields` tells."""
    for job in bundle.jobs.values():
        tasks = _mapping(job).get("tasks")
        for task in tasks if isinstance(tasks, list) else []:
            yield _mapping(_mapping(_mapping(task).get("python_wheel_task")).get("named_parameters"))


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}
