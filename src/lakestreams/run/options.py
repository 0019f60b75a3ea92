"""Options that jobs and commands share; the command line and the wheel's entry points fill them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileOptions:
    """Which pipelines, and what replaces their files' settings of Kafka.

    Attributes:
        pipelines: the pipelines' files.
        sources: the file of Kafka and topics; by default `sources.yml` next to each pipeline's file.
        bootstrap_servers: overrides the files' address of Kafka.
        secret_scope: where every secret is looked up, instead of the scope that its reference names; so that one file
            serves targets that have a scope each.
    """

    pipelines: tuple[Path, ...] = ()
    sources: Path | None = None
    bootstrap_servers: str | None = None
    secret_scope: str | None = None


@dataclass(frozen=True)
class LakeOptions:
    """Where the tables are.

    Attributes:
        root: folder of all tables; with a catalog the volume folder of checkpoints.
        catalog: Unity Catalog catalog, or None for folders.
        schemas: names of the lake's schemas that are not the default ones, such as `bronze=raw,control=_streams`.
    """

    root: str | None = None
    catalog: str | None = None
    schemas: str | None = None


@dataclass(frozen=True)
class Timing:
    """When a run starts a round, and what it does about inputs that are silent.

    Attributes:
        interval_ms: time between two rounds; None for one run over what is there.
        idle_timeout_ms: overrides the pipeline's setting.
        drain: treat all inputs as ended, and give out what waits for a record.
    """

    interval_ms: int | None = None
    idle_timeout_ms: int | None = None
    drain: bool = False


@dataclass(frozen=True)
class Accepted:
    """What a run accepts instead of failing.

    Attributes:
        max_bad_share: overrides the pipeline's setting.
        data_loss: go on where records expired unread.
        change: go on where the topology has changed over existing results.
    """

    max_bad_share: float | None = None
    data_loss: bool = False
    change: bool = False


@dataclass(frozen=True)
class PipelineOptions:
    """Pipelines and their lake: all that a command needs which looks at results."""

    files: FileOptions = FileOptions()
    lake: LakeOptions = LakeOptions()


@dataclass(frozen=True)
class RunOptions(PipelineOptions):
    """Pipelines, their lake, and how to run them.

    Attributes:
        timing: when rounds start.
        accepted: what does not fail a run.
        quick: a local session that starts sooner and computes slower: for small data.
    """

    timing: Timing = Timing()
    accepted: Accepted = Accepted()
    quick: bool = False


@dataclass(frozen=True)
class VerifyOptions:
    """Which cycles `verify` compares, and how.

    Attributes:
        from_cycle, to_cycle: the first and the last one; None: as far as there are any.
        ask_second: whether the joins are compared with plain SQL as well.
    """

    from_cycle: int | None = None
    to_cycle: int | None = None
    ask_second: bool = True


@dataclass(frozen=True)
class MaintainOptions:
    """What `maintain` does.

    Attributes:
        retention: records that were ingested longer ago are trimmed; None: by the pipeline's bronze_retention.
        outputs: whether the outputs' files are looked after as well.
        vacuum_retention: how long files of old versions stay; None: 7 days.
        dry_run: whether it only says what would be done.
    """

    retention: str | None = None
    outputs: bool = False
    vacuum_retention: str | None = None
    dry_run: bool = False
