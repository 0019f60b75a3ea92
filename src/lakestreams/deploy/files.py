"""The pipelines that a bundle's jobs run, read from the bundle's own folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestreams.config.compile import load_pipeline
from lakestreams.deploy.read import Bundle
from lakestreams.errors import LakestreamsError, unfold
from lakestreams.run.arguments import READERS

if TYPE_CHECKING:
    from lakestreams.config.compile import Pipeline


@dataclass(frozen=True)
class Reading:
    """A task that reads Kafka.

    Attributes:
        pipeline: what it runs, with Kafka's address and the scope of secrets that the task's parameters say.
        where: the job, for messages.
    """

    pipeline: Pipeline
    where: str


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
    reached = [options for one in used for options in (one.kafka, one.registry) if options is not None]
    found = [secret for options in reached for secret in options.secrets()]
    return list(dict.fromkeys((scope, key) for own, key in found for scope in (scopes or {own})))


def credentials(used: list[Pipeline]) -> list[str]:
    """The service credentials that the pipelines sign in to Kafka with, each once."""
    found = [pipeline.kafka.service_credential for pipeline in used if pipeline.kafka.bootstrap_servers is not None]
    return list(dict.fromkeys(one for one in found if one is not None))


def delta_tables(used: list[Pipeline]) -> list[str]:
    """The Delta tables that the pipelines read, as their files name them, each once."""
    found = [source.delta for pipeline in used for source in pipeline.topology.sources]
    return list(dict.fromkeys(one for one in found if one is not None))


def readings(bundle: Bundle, used: list[Pipeline]) -> tuple[list[Reading], list[LakestreamsError]]:
    """The tasks that read Kafka, one for each of their pipelines, and the faults of Kafka addresses that are none.

    Args:
        bundle: for the target.
        used: its pipelines, as `pipelines` found them.
    """
    found: list[Reading] = []
    faults: list[LakestreamsError] = []
    for key, wheel in _wheel_tasks(bundle):
        if wheel.get("entry_point") not in READERS:
            continue
        named, where = _said(wheel), bundle.where(f"jobs.{key}")
        for pipeline in (one for file, sources in _files(bundle, named) for one in used if _is(one, file, sources)):
            kafka = pipeline.kafka
            try:
                if named.get("bootstrap-servers"):
                    kafka = replace(kafka, bootstrap_servers=named["bootstrap-servers"])
            except LakestreamsError as error:
                error.where = where
                faults.append(error)
                continue
            if named.get("secret-scope"):
                kafka = kafka.with_scope(named["secret-scope"])
            found.append(Reading(replace(pipeline, kafka=kafka), where))
    return found, faults


def _is(pipeline: Pipeline, file: Path, sources: Path | None) -> bool:
    return pipeline.path == file and sources in (None, pipeline.sources_path)


def _named(bundle: Bundle) -> Iterator[tuple[Path, Path | None]]:
    for named in _parameters(bundle):
        yield from _files(bundle, named)


def _files(bundle: Bundle, named: Mapping[str, Any]) -> Iterator[tuple[Path, Path | None]]:
    synced = f"{bundle.config['workspace']['file_path']}/"
    sources = str(named.get("sources", ""))
    shared = bundle.root / sources.removeprefix(synced) if sources.startswith(synced) else None
    for one in (name.strip() for name in str(named.get("pipeline", "")).split(",")):
        if one.startswith(synced):
            yield bundle.root / one.removeprefix(synced), shared


def _parameters(bundle: Bundle) -> Iterator[Mapping[str, Any]]:
    for _, wheel in _wheel_tasks(bundle):
        yield _said(wheel)


def _said(wheel: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a task says to its entry point, by name; of a list of parameters, too, whose `--pipeline` may come again."""
    listed = wheel.get("parameters")
    if not isinstance(listed, list):
        return _mapping(wheel.get("named_parameters"))
    found: dict[str, str] = {}
    name = ""
    for token in map(str, listed):
        value = token
        if token.startswith("--"):
            name, assigned, value = token.removeprefix("--").partition("=")
            if not assigned:
                continue
        if name:
            found[name] = f"{found[name]},{value}" if name == "pipeline" and name in found else value
        name = ""
    return found


def _wheel_tasks(bundle: Bundle) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Job and `python_wheel_task` of all tasks; what has another shape than a job's is a fault that `fields` tells."""
    for key, job in bundle.jobs.items():
        tasks = _mapping(job).get("tasks")
        for task in tasks if isinstance(tasks, list) else []:
            yield key, _mapping(_mapping(task).get("python_wheel_task"))


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}
