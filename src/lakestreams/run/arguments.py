"""What the wheel's entry points take: one parser each, and the options that its arguments say.

A bundle's parameters are checked with the parsers before they are deployed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lakestreams.engine.runtime import schemas
from lakestreams.errors import InvalidOption, LakestreamsError
from lakestreams.run.options import Accepted, FileOptions, LakeOptions, PipelineOptions, RunOptions, Timing
from lakestreams.topology.durations import to_ms
from lakestreams.visible import visible

PACKAGE: Final = "lakestreams"

READERS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "enrichment": "conf/enrichment.yml",
        "correlation": "conf/correlation.yml",
        "fk_join": "conf/fk_join.yml",
        "lakestreams-pipeline": None,
    }
)
"""The entry points that read from Kafka, each with the pipeline that it runs by default, if there is one."""

_COMMANDS: Final = ("lakestreams-verify", "lakestreams-maintain")
_SCHEMAS_HELP: Final = "names of the lake's schemas: bronze=bronze,silver=silver,control=_lakestreams, or some of them"


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Entry point to the parser of its arguments; a test compares the names with the wheel's."""
    return {name: reader_parser(name) for name in READERS} | {name: command_parser(name) for name in _COMMANDS}


def reader_parser(name: str) -> argparse.ArgumentParser:
    """What reads the arguments of a job that reads from Kafka."""
    parser = argparse.ArgumentParser(
        prog=name, allow_abbrev=False, description=f"lakestreams' job {name}: runs its pipeline, once or at an interval"
    )
    _add_pipelines(parser, READERS[name])
    add = parser.add_argument
    add("--interval", metavar="TIME", help="time between two rounds, such as 30s; none: one run over what is there")
    add("--max-bad-share", type=float, metavar="SHARE", help="unreadable records of a source at which a run fails")
    add("--idle-timeout", metavar="TIME", help="how long an input must be idle before its clock moves without records")
    add("--drain", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="treat the inputs as ended, so that waiting rows come out")  # fmt: skip
    add("--accept-data-loss", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="continue where records expired before they were read, and record which")  # fmt: skip
    add("--accept-change", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="continue although the pipeline has changed since its results, and record what")  # fmt: skip
    add("--bootstrap-servers", metavar="HOST:PORT", help="Kafka's address, instead of the one in the sources' file")
    add("--secret-scope", metavar="SCOPE", help="looks every secret:// up in this scope, instead of the one it names")
    add("--quick", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="local only: a session that starts sooner and computes slower")  # fmt: skip
    return parser


def command_parser(name: str) -> argparse.ArgumentParser:
    """What reads the arguments of a job that is a command."""
    parser = argparse.ArgumentParser(
        prog=name, allow_abbrev=False, description=f"{name.replace('-', ' ', 1)}, as a job"
    )
    _add_pipelines(parser, None)
    if name == "lakestreams-maintain":
        parser.add_argument(
            "--retention", metavar="TIME", help="trims records that were ingested longer ago, such as 30d"
        )
        parser.add_argument("--vacuum-retention", metavar="TIME", help="how long files of old versions stay")
    return parser


def _add_pipelines(parser: argparse.ArgumentParser, default: str | None) -> None:
    """The arguments of every job: pipelines and their lake."""
    add = parser.add_argument
    add("--pipeline", action="append", required=default is None, metavar="FILE",
        help="a pipeline's file, on disk or in the package; repeatable, or several with commas"
        + (f" ({default})" if default else ""))  # fmt: skip
    add("--sources", type=Path, metavar="FILE", help="the sources' file (sources.yml in the pipeline's folder)")
    add("--root", type=_folder_text, metavar="FOLDER", help="the folder of all tables (lake)")
    add(
        "--checkpoint-root",
        type=_folder_text,
        metavar="FOLDER",
        help="with --catalog: the volume folder of the checkpoints",
    )
    add("--catalog", help="Unity Catalog catalog of all tables")
    add("--schemas", type=_schemas_text, metavar="ROOM=NAME,...", help=_SCHEMAS_HELP)


def _schemas_text(text: str) -> str:
    """The value of `--schemas`, once it is known to be one; also for the check of a bundle, which has no lake."""
    return _judged(text, schemas.parse)


def _folder_text(text: str) -> str:
    """The value of `--root` or `--checkpoint-root`, once it is known to be a folder's; also for the check of a bundle."""
    return _judged(text, schemas.require_folder)


def _judged(text: str, judge: Callable[[str], object]) -> str:
    try:
        judge(text)
    except LakestreamsError as error:
        msg = f"{error.message} ({error.hint})"
        raise argparse.ArgumentTypeError(msg) from None
    return text


def _yes(text: str) -> bool:
    if text.lower() in ("true", "yes", "1"):
        return True
    if text.lower() in ("false", "no", "0"):
        return False
    msg = f"{text!r} is neither true nor false"
    raise argparse.ArgumentTypeError(msg)


# --- from arguments to options -------------------------------------------------------------------------------------


def run_options(name: str, argv: Sequence[str]) -> RunOptions:
    """What a job that reads from Kafka is asked to do.

    Raises:
        InvalidOption: if there are checkpoints of a catalog that is not named.
        InvalidDuration: for a time that cannot be read.
        SystemExit: with 2, for another argument that cannot be read.
    """
    parser = reader_parser(name)
    arguments = parse(parser, argv)
    interval = None if arguments.interval in (None, "none", "once") else to_ms(arguments.interval, "--interval")
    idle_timeout = None if arguments.idle_timeout is None else to_ms(arguments.idle_timeout, "--idle-timeout")
    asked = pipeline_options(parser, arguments)
    return RunOptions(
        replace(asked.files, bootstrap_servers=arguments.bootstrap_servers, secret_scope=arguments.secret_scope),
        asked.lake,
        Timing(interval, idle_timeout, arguments.drain),
        Accepted(arguments.max_bad_share, arguments.accept_data_loss, arguments.accept_change),
        quick=arguments.quick,
    )


def pipeline_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> PipelineOptions:
    """The pipelines and the lake that a job's arguments name.

    Raises:
        InvalidOption: for checkpoints of a catalog that is not named.
        SystemExit: with 2, if no pipeline is named, such as by `--pipeline=,`.
    """
    # a bundle's variable is empty: a lake of folders is not meant
    if arguments.checkpoint_root and not arguments.catalog:
        msg = "--checkpoint-root is given without a catalog: --catalog is missing or empty"
        raise InvalidOption(msg, hint="name the catalog with --catalog; for a lake of folders, give --root alone")
    default = READERS.get(parser.prog)
    given = arguments.pipeline or ([] if default is None else [default])
    names = [name for text in given for one in text.split(",") if (name := one.strip())]
    if not names:
        parser.error("the following arguments are required: --pipeline")
    files = FileOptions(tuple(map(Path, names)), arguments.sources)
    return PipelineOptions(
        files, LakeOptions(arguments.checkpoint_root or arguments.root, arguments.catalog, arguments.schemas)
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Reads a job's arguments; names those that it does not know in a warning.

    An argument without a value counts as not given: a bundle's variable may be empty.

    Raises:
        SystemExit: with 2, for a value of no argument: it looks like a pipeline's file, and another one would run.
    """
    valued = [token for token in argv if token.partition("=")[1:] != ("=", "")]
    known, unknown = parser.parse_known_args(valued)
    for before, token in pairwise(("", *unknown)):
        is_value = before.startswith("-") and "=" not in before  # of an unknown parameter, as in `--team growth`
        if token.strip() and not token.startswith("-") and not is_value:
            parser.error(f"{visible(token)} belongs to no argument; a pipeline's file is given as --pipeline=FILE")
    if unknown:
        names = ", ".join(token.partition("=")[0] for token in unknown)  # a value may be somebody's secret
        sys.stderr.write(f"warning: {parser.prog} ignores parameters it does not know: {visible(names)}\n")
    return known
