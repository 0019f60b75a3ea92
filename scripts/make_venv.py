"""Makes the cached environment that scripts/bootstrap.sh needs, or waits for whoever is making it; prints its path.

Standard library only: it runs before anything is installed. The marker `complete` is written last, so an interrupted
set-up is done again; the lock is the kernel's, so it goes when its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path


def main(cache: Path, pins: list[Path]) -> None:
    """Prints the path of a complete environment for the files of pins and the Python that runs this."""
    cache.mkdir(parents=True, exist_ok=True)
    venv = cache / f"venv-{_fingerprint(pins)}"
    with (cache / f"{venv.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process is preparing the environment, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "complete").is_file():
            _make(venv, pins)
    print(venv)


def _fingerprint(pins: list[Path]) -> str:
    made_of = [sys.version, sys.executable, *(file.read_text(encoding="utf-8") for file in pins)]
    return hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]


def _make(venv: Path, pins: list[Path]) -> None:
    started = time.monotonic()
    _say(f"preparing Python {sys.version.split()[0]} with Spark and the tools in {venv} (only once, a minute or two)")
    shutil.rmtree(venv, ignore_errors=True)  # what an interrupted set-up left
    _run(
        [sys.executable, "-m", "venv", str(venv)],
        f"{sys.executable} cannot make a virtual environment.",
        "Debian, Ubuntu: sudo apt-get install python3-venv",
    )
    # --no-deps: the pins name everything, and pip need not think. Two steps would install pyspark twice for two lanes.
    named = [argument for file in pins for argument in ("-r", str(file))]
    _run(
        [
            str(venv / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            *named,
        ],
        "the pinned packages could not be installed.",
        "The first set-up needs the network (or a pip configured for a mirror); run it again then, it starts afresh.",
    )
    (venv / "complete").write_text("", encoding="utf-8")
    _say(f"environment ready in {time.monotonic() - started:.0f} s")


def _run(command: list[str], fault: str, remedy: str) -> None:
    # stdout carries the result of this script and nothing else.
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        sys.exit(f"lakestreams cannot start: {fault}\n  {remedy}")


def _say(line: str) -> None:
    print(f"lakestreams: {line}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
