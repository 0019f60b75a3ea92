"""Arguments and options that commands share. A dataclass is a group of options: `command` gives it to Typer field by field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from lakestreams.errors import InvalidDuration
from lakestreams.run.options import (
    Accepted,
    FileOptions,
    LakeOptions,
    MaintainOptions,
    PipelineOptions,
    RunOptions,
    Timing,
    VerifyOptions,
)
from lakestreams.topology.durations import to_ms

Pipelines = Annotated[
    list[Path], typer.Argument(help="Pipeline files, such as conf/enrichment.yml.", show_default=False)
]
Pipeline = Annotated[Path, typer.Argument(help="The pipeline's file.", show_default=False)]
Servers = Annotated[str | None, typer.Option(help="Kafka's address, instead of the one in the sources' file.")]


@dataclass(frozen=True)
class Tables:
    """Where tables are."""

    root: Annotated[str | None, typer.Option(help="Folder of all tables.", show_default="lake")] = None
    catalog: Annotated[
        str | None, typer.Option(help="Unity Catalog catalog; --root is then its checkpoints' folder.")
    ] = None
    schemas: Annotated[
        str | None,
        typer.Option(
            metavar="ROOM=NAME,...",
            help="Names of the lake's schemas: bronze=bronze,silver=silver,control=_lakestreams, or some of them.",
        ),
    ] = None

    @property
    def lake(self) -> LakeOptions:
        """Where the tables are."""
        return LakeOptions(self.root, self.catalog, self.schemas)


@dataclass(frozen=True)
class Where(Tables):
    """Where topics and tables are."""

    sources: Annotated[
        Path | None,
        typer.Option(help="The file of Kafka and topics; by default sources.yml in the pipeline's folder."),
    ] = None

    def files(self, *pipelines: Path, bootstrap_servers: str | None = None) -> FileOptions:
        """These pipelines with the sources' file."""
        return FileOptions(pipelines, self.sources, bootstrap_servers)

    def options(self, *pipelines: Path, bootstrap_servers: str | None = None) -> PipelineOptions:
        """These pipelines and their lake."""
        return PipelineOptions(self.files(*pipelines, bootstrap_servers=bootstrap_servers), self.lake)


@dataclass(frozen=True)
class Broker:
    """Kafka's address, and whether it is asked."""

    bootstrap_servers: Servers = None
    broker: Annotated[bool, typer.Option("--broker/--no-broker", help="Whether the broker is asked.")] = True


@dataclass(frozen=True)
class Deployed:
    """A target of a bundle, if one is named."""

    target: Annotated[
        str | None, typer.Option("--target", "-t", help="A target of databricks.yml: the workspace is asked.")
    ] = None
    bundle: Annotated[
        Path, typer.Option("--bundle", metavar="FOLDER", help="With --target: where databricks.yml is.")
    ] = Path()
    var: Annotated[
        list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="With --target: a variable of the bundle.")
    ] = None


@dataclass(frozen=True)
class CheckOptions:
    """What `check` looks at and shows beyond faults."""

    explain: Annotated[
        bool, typer.Option("--explain", help="Also the plan in words, the tables, the cost and the drawing.")
    ] = False
    records_per_second: Annotated[
        float,
        typer.Option(min=0.0, help="With --explain: the rate for which the cost is counted, of all topics together."),
    ] = 1_000.0
    table_rows: Annotated[int, typer.Option(min=0, help="With --explain: how many live keys each table has.")] = 100_000
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the pipeline into this file, as SVG.")] = None
    data: Annotated[
        bool, typer.Option("--data", help="Also how the topics are partitioned, judged from the records in bronze.")
    ] = False
    newest: Annotated[int, typer.Option(min=1, help="With --data: so many records of each topic, the newest.")] = (
        200_000
    )

    def __post_init__(self) -> None:
        """Refuses a rate that nothing can be counted with: Typer takes `inf` and `nan`."""
        if not math.isfinite(self.records_per_second):
            msg = f"--records-per-second {self.records_per_second} is no rate"
            raise typer.BadParameter(msg)


@dataclass(frozen=True)
class HowToRun:
    """How `run` runs pipelines."""

    interval: Annotated[
        str | None, typer.Option(help="Run round after round, this long apart, such as 5s, until Ctrl-C.")
    ] = None
    once: Annotated[bool, typer.Option("--once", help="One run over what is there now (the default).")] = False
    max_bad_share: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="The share of unreadable records of a source at which a run fails."),
    ] = None
    idle_timeout: Annotated[
        str | None, typer.Option(help="How long an input is silent before its clock goes on by itself, such as 1m.")
    ] = None
    drain: Annotated[
        bool, typer.Option("--drain", help="Treat the inputs as ended, so that waiting rows come out.")
    ] = False
    accept_data_loss: Annotated[
        bool, typer.Option("--accept-data-loss", help="Go on where records expired unread; the loss is written down.")
    ] = False
    accept_change: Annotated[
        bool,
        typer.Option("--accept-change", help="Go on where the pipeline has changed over existing results."),
    ] = False
    bootstrap_servers: Servers = None
    quick: Annotated[bool, typer.Option("--quick", help="A session that starts sooner and computes slower.")] = False

    def __post_init__(self) -> None:
        """Refuses options that exclude each other."""
        if self.once and self.interval is not None:
            msg = "--once and --interval exclude each other"
            raise typer.BadParameter(msg)

    def options(self, where: Where, *pipelines: Path) -> RunOptions:
        """A run of these pipelines."""
        return RunOptions(
            where.files(*pipelines, bootstrap_servers=self.bootstrap_servers),
            where.lake,
            Timing(ms_of(self.interval, "--interval"), ms_of(self.idle_timeout, "--idle-timeout"), self.drain),
            Accepted(self.max_bad_share, self.accept_data_loss, self.accept_change),
            quick=self.quick,
        )


@dataclass(frozen=True)
class Compared:
    """Which cycles `verify` compares, and how."""

    from_cycle: Annotated[int | None, typer.Option("--from", min=1, help="The first cycle to compare.")] = None
    to_cycle: Annotated[int | None, typer.Option("--to", min=1, help="The last cycle to compare.")] = None
    ask_second: Annotated[
        bool,
        typer.Option("--second-opinion/--no-second-opinion", help="Compare the joins with plain SQL as well."),
    ] = True

    @property
    def options(self) -> VerifyOptions:
        """The same, as the command takes it."""
        return VerifyOptions(self.from_cycle, self.to_cycle, self.ask_second)


@dataclass(frozen=True)
class Maintaining:
    """What `maintain` does."""

    retention: Annotated[
        str | None,
        typer.Option(
            help="Trim records that were ingested longer ago, such as 30d; by default the pipeline's bronze_retention."
        ),
    ] = None
    outputs: Annotated[bool, typer.Option("--outputs", help="Look after the outputs' files as well.")] = False
    vacuum_retention: Annotated[
        str | None, typer.Option(help="How long files of old versions stay; 7 days by default, which is the least.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False

    @property
    def options(self) -> MaintainOptions:
        """The same, as the command takes it."""
        return MaintainOptions(self.retention, self.outputs, self.vacuum_retention, self.dry_run)


@dataclass(frozen=True)
class NewBundle:
    """What `init` writes for a new bundle."""

    job: Annotated[
        list[str] | None, typer.Option(help="A job to begin with: enrichment, correlation or fk_join; all by default.")
    ] = None
    wheel: Annotated[Path | None, typer.Option(metavar="FILE", help="The wheel that the jobs will run.")] = None
    host: Annotated[str, typer.Option(metavar="URL", help="The workspace's address, for every target.")] = ""
    cloud: Annotated[
        Literal["aws", "azure", "gcp"], typer.Option(help="The workspace's cloud: it decides the machine of clusters.")
    ] = "aws"
    for_dbx: Annotated[bool, typer.Option("--dbx", help="Also conf/deployment.yml, the same jobs for dbx.")] = False


def ms_of(text: str | None, option: str) -> int | None:
    """A duration in ms, if there is one.

    Raises:
        InvalidDuration: naming the option.
    """
    try:
        return None if text is None else to_ms(text, option)
    except InvalidDuration as error:
        error.speak_yaml()  # an option is written as in a file, not as in Python
        raise
