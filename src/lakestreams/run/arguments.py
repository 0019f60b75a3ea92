"""What the wheel's entry points take: one parser each. A bundle's parameters are checked with them before they are deployed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lakestreams.engine.runtime import schemas
from lakestreams.errors import LakestreamsError

PACKAGE: Final = "lakestreams"

READERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "enrichment": "conf/enrichment.yml",
        "correlation": "conf/correlation.yml",
        "fk_join": "conf/fk_join.yml",
        "pipeline": "conf/enrichment.yml",
    }
)
"""The entry points that read from Kafka, each with the pipeline that it runs by default."""

_COMMANDS: Final = ("verify", "maintain")
_SCHEMAS_HELP: Final = "names of the lake's schemas: bronze=bronze,silver=silver,control=_lakestreams, or some of them"


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Entry point to the parser of its arguments; a test compares the names with the wheel's."""
    return {name: reader_parser(name) for name in READERS} | {name: command_parser(name) for name in _COMMANDS}


def reader_parser(name: str) -> argparse.ArgumentParser:
    """What reads the arguments of a job that reads from Kafka."""
    default_pipeline = READERS[name]
    parser = argparse.ArgumentParser(
        prog=name, allow_abbrev=False, description=f"lakestreams' job {name}: runs its pipeline, once or at an interval"
    )
    add = parser.add_argument
    add("--pipeline", action="append", metavar="FILE",
        help=f"a pipeline's file, on disk or in the package; repeatable, or several with commas ({default_pipeline})")  # fmt: skip
    add("--sources", type=Path, metavar="FILE", help="the sources' file (sources.yml beside the pipeline's)")
    add("--root", metavar="FOLDER", help="the folder of all tables (lake)")
    add("--checkpoint-root", metavar="FOLDER", help="with --catalog: the volume folder of the checkpoints")
    add("--catalog", help="Unity Catalog catalog of all tables")
    add("--schemas", type=_schemas_text, metavar="ROOM=NAME,...", help=_SCHEMAS_HELP)
    add("--interval", metavar="TIME", help="time between two rounds, such as 30s; none: one run over what is there")
    add("--max-bad-share", type=float, metavar="SHARE", help="unreadable records of a source at which a run fails")
    add("--idle-timeout", metavar="TIME", help="how long an input must be silent for its clock to go on by itself")
    add("--drain", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="no record will come: whatever waits for one is to come out")  # fmt: skip
    add("--accept-data-loss", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="go on where records expired before they were read, and write down which")  # fmt: skip
    add("--accept-change", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="go on where the pipeline has changed over existing results, and write down what")  # fmt: skip
    add("--bootstrap-servers", metavar="HOST:PORT", help="Kafka's address, instead of the one in the sources' file")
    add("--secret-scope", metavar="SCOPE", help="looks every secret:// up in this scope, instead of the one it names")
    add("--quick", type=_yes, nargs="?", const=True, default=False, metavar="true|false",
        help="local only: a session that starts sooner and computes slower")  # fmt: skip
    return parser


def given_of(argv: Sequence[str]) -> list[str]:
    """The arguments without those that have no value: a bundle's variable may be empty."""
    return [token for token in argv if token.partition("=")[1:] != ("=", "")]


def _schemas_text(text: str) -> str:
    """The value of `--schemas`, once it is known to be one; also for the check of a bundle, which has no lake."""
    try:
        schemas.parse(text)
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


def command_parser(name: str) -> argparse.ArgumentParser:
    """What reads the arguments of a job that is a command."""
    parser = argparse.ArgumentParser(prog=name, allow_abbrev=False, description=f"lakestreams {name}, as a job")
    add = parser.add_argument
    add("--pipeline", action="append", required=True, metavar="FILE",
        help="a pipeline's file, on disk or in the package; repeatable, or several with commas")  # fmt: skip
    add("--sources", metavar="FILE", help="the sources' file (sources.yml beside the pipeline's)")
    add("--root", metavar="FOLDER", help="the folder of all tables (lake)")
    add("--checkpoint-root", metavar="FOLDER", help="with --catalog: the volume folder of the checkpoints")
    add("--catalog", help="Unity Catalog catalog of all tables")
    add("--schemas", type=_schemas_text, metavar="ROOM=NAME,...", help=_SCHEMAS_HELP)
    if name == "maintain":
        add("--retention", metavar="TIME", help="trims records that were ingested longer ago, such as 30d")
        add("--vacuum-retention", metavar="TIME", help="how long files of old versions stay")
    return parser
