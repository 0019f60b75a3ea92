"""`python -m tests.conformance`: see the package."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.cases import load
from tests.conformance.executors import EXECUTORS
from tests.conformance.runner import run

CASES = Path(__file__).parent / "cases"
DEFAULT = (CASES / "kafka_streams.json", CASES / "random.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if any case has failed, a file cannot be read, or a wanted case is not there."""
    options = _parser().parse_args(arguments)
    cases, faults = load(options.files or DEFAULT)
    wanted = set(options.only or ())
    missing = sorted(wanted - {case.id for case in cases})
    if wanted:
        cases = [case for case in cases if case.id in wanted]
    report = run(cases, EXECUTORS[options.executor](options.seed), options.rules)
    complaints = [f"cannot be read: {fault}" for fault in faults] + [f"no case has the id {one!r}" for one in missing]
    sys.stdout.write("\n".join([*complaints, *report.lines()]) + "\n")
    return 1 if report.failed or complaints else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.conformance", description="Runs conformance cases.")
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: the cases of the project")
    parser.add_argument("--executor", choices=sorted(EXECUTORS), default="reference")
    parser.add_argument("--rules", choices=("kafka", "strict"), default="kafka")
    parser.add_argument("--only", action="append", metavar="ID", help="this case only; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="of the cuts (default: %(default)s)")
    return parser


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
