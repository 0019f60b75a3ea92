"""Connector and broker jars: pinned, flat, resolved once by the Ivy that pyspark carries, then found at once.

Flat means without transitivity: the pins name every jar, Ivy neither reads POMs nor decides anything, and what arrives
must have the pinned SHA-256. Transitive resolution took 77 s; this takes a few. No Maven, no other tool is needed.

`python -m lakestreams.local.jars` resolves both sets and prints where they are.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import select
import shutil
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

from lakestreams.errors import JarsUnresolved, LakestreamsError
from lakestreams.local.cache import Progress, cache_dir, locked, log_dir, tail
from lakestreams.local.java import find_java
from lakestreams.local.pins import BROKER_PINS, SPARK_PINS

_NO_DATA_S: Final = 90.0
"""Ivy has printed nothing for so long: the network swallows packets, and waiting longer helps nobody."""
_PROGRESS_EVERY_S: Final = 5.0
_FAULT = re.compile(
    r"not found|UNRESOLVED|FAILED|SERVER ERROR|Exception|unresolved|Connection|timed out", re.IGNORECASE
)
# usepoms and checksums off: one request a jar instead of six. Our own SHA-256 pins are stricter than the sums next to the jar.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers>
</ivysettings>
"""


def spark_jars(progress: Progress | None = None) -> list[Path]:
    """The connector jars for the installed pyspark, resolved at the first call.

    Raises:
        JarsUnresolved: no network, a jar that is not what was pinned, or no set for this pyspark.
        JavaMissing: no Java to resolve with.
        JavaTooOld: the Java that was found is too old.
    """
    version = pyspark_version()
    pins = SPARK_PINS.get(version)
    if pins is None:
        raise JarsUnresolved(
            f"there is no jar set for the installed pyspark {version}; there are sets for {', '.join(SPARK_PINS)}",
            hint=f"pip install pyspark=={next(iter(SPARK_PINS))}, or add a set to src/lakestreams/local/pins.py",
        )
    return pinned_jars(f"Spark {version} connectors", pins, progress)


def broker_jars(progress: Progress | None = None) -> list[Path]:
    """The broker's jars, resolved at the first call. Raises what `spark_jars` raises."""
    return pinned_jars("broker", BROKER_PINS, progress)


def jar_dir(pins: dict[str, str]) -> Path:
    """Where a set is published: the name holds a hash of the pins, so another set never meets this one."""
    text = "\n".join(f"{coordinate} {digest}" for coordinate, digest in sorted(pins.items()))
    return cache_dir() / f"jars-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def pinned_jars(label: str, pins: dict[str, str], progress: Progress | None = None) -> list[Path]:
    """The jars of a set of pins, resolved at the first call; `label` names the set in messages.

    Raises:
        JarsUnresolved: no network, or a jar that is not what was pinned.
        JavaMissing: no Java to resolve with.
        JavaTooOld: the Java that was found is too old.
    """
    say = progress or _ignore
    folder = jar_dir(pins)
    jars = [folder / _file_name(coordinate) for coordinate in pins]
    if _complete(jars):
        return jars
    with locked(folder.name, on_wait=lambda: say(f"{label} jars: another process is resolving them, waiting")):
        if not _complete(jars):
            _publish(label, pins, folder, say)
    return jars


def _complete(jars: list[Path]) -> bool:
    return all(jar.is_file() for jar in jars)


def _publish(label: str, pins: dict[str, str], folder: Path, say: Progress) -> None:
    """Resolves into a temporary folder, and renames it only when it is whole: nobody ever sees half a set."""
    started = time.monotonic()
    java = find_java()
    say(f"{label} jars: resolving {len(pins)} (only once, kept in {folder})")
    work = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(work / "lib", ignore_errors=True)
    (work / "lib").mkdir(parents=True)
    (work / "ivysettings.xml").write_text(_SETTINGS, encoding="utf-8")
    (work / "ivy.xml").write_text(_ivy_file(pins), encoding="utf-8")
    log = log_dir() / f"ivy-{folder.name}.log"
    _run_ivy(label, java, work, len(pins), log, say)
    _check_digests(label, pins, work / "lib", log)
    shutil.rmtree(folder, ignore_errors=True)
    (work / "lib").rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    say(f"{label} jars: {len(pins)} ready in {time.monotonic() - started:.1f} s")


def _run_ivy(label: str, java: Path, work: Path, total: int, log: Path, say: Progress) -> None:
    settings = os.environ.get("LAKESTREAMS_IVY_SETTINGS") or str(work / "ivysettings.xml")
    command = [
        str(java),
        "-XX:TieredStopAtLevel=1",
        "-Dsun.net.client.defaultConnectTimeout=15000",
        "-Dsun.net.client.defaultReadTimeout=60000",
        *_proxy_flags(),
        *("-jar", str(_ivy_jar())),
        *("-settings", settings),
        *("-ivy", str(work / "ivy.xml")),
        *("-confs", "default"),
        *("-cache", str(work / "ivy")),  # kept when it fails, so that the next try goes on from there
        *("-retrieve", str(work / "lib" / "[organisation]__[artifact]-[revision].[ext]")),
    ]
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ivy,
    ):
        try:
            timely = _follow(ivy, out, lambda count: say(f"{label} jars: {count} of {total}"))
        except BaseException:
            ivy.kill()
            raise
        if not timely:
            ivy.kill()
    if ivy.returncode != 0:
        raise _unresolved(label, log, "" if timely else f"nothing arrived for {_NO_DATA_S:.0f} s")


def _follow(ivy: subprocess.Popen[bytes], out: BinaryIO, report: Callable[[int], None]) -> bool:
    """Copies Ivy's output to its log and reports how many jars came; False if it fell silent for too long."""
    assert ivy.stdout is not None  # noqa: S101  # opened as a pipe above
    source = ivy.stdout.fileno()
    count, reported = 0, time.monotonic()
    while select.select([source], [], [], _NO_DATA_S)[0]:
        chunk = os.read(source, 65536)
        if not chunk:
            return True
        out.write(chunk)
        count += chunk.count(b"[SUCCESSFUL ]")
        if time.monotonic() - reported > _PROGRESS_EVERY_S:
            report(count)
            reported = time.monotonic()
    return False


def _check_digests(label: str, pins: dict[str, str], folder: Path, log: Path) -> None:
    for coordinate, expected in pins.items():
        jar = folder / _file_name(coordinate)
        if not jar.is_file():
            raise _unresolved(label, log, f"{coordinate} did not arrive")
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != expected:
            shutil.rmtree(folder.parent, ignore_errors=True)  # or the wrong jar would be taken from Ivy's cache again
            raise JarsUnresolved(
                f"{coordinate} is not the jar that was pinned: its SHA-256 is {found}, the pin says {expected}",
                hint="the repository or a proxy serves another file under this name; find out why before going on",
            )


def _unresolved(label: str, log: Path, reason: str) -> JarsUnresolved:
    faults = [line.strip() for line in tail(log, 200).splitlines() if _FAULT.search(line)]
    shown = "\n".join([reason] * bool(reason) + list(dict.fromkeys(faults))[:8])
    return JarsUnresolved(
        f"the {label} jars could not be resolved:\n{shown}\nIvy's whole output: {log}",
        hint="connect to the network once and run again; behind a mirror or proxy set HTTPS_PROXY, or "
        "LAKESTREAMS_IVY_SETTINGS to an Ivy settings file of your own",
    )


def _ivy_file(pins: dict[str, str]) -> str:
    wanted = "\n".join(map(_dependency, pins))
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="lakestreams" module="jars"/>\n'
        f'<configurations><conf name="default"/></configurations>\n<dependencies>\n{wanted}\n</dependencies></ivy-module>\n'
    )


def _dependency(coordinate: str) -> str:
    group, artifact, version, *other = coordinate.split(":")
    own = f'org="{group}" name="{artifact}" rev="{version}" conf="default->default" transitive="false"'
    if not other:
        return f"  <dependency {own}/>"
    ending, classifier = other
    file = f'name="{artifact}" type="{ending}" ext="{ending}" m:classifier="{classifier}"'
    return f"  <dependency {own}><artifact {file}/></dependency>"


def _file_name(coordinate: str) -> str:
    group, artifact, version, *other = coordinate.split(":")
    return f"{group}__{artifact}-{version}.{other[0] if other else 'jar'}"


def _proxy_flags() -> list[str]:
    """Java does not read `HTTPS_PROXY`; pip and everything else does, so what works for them should work for Ivy."""
    given = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or ""
    proxy = urllib.parse.urlsplit(given if "://" in given else f"http://{given}")  # pip and curl take host:port
    if not proxy.hostname:
        return []
    try:
        port = proxy.port or 80
    except ValueError as error:
        raise JarsUnresolved(f"HTTPS_PROXY names no proxy: {error}", hint="such as http://proxy.example:3128") from None
    # the same hosts as for pip: a leading dot, or none, stands for the domain with all of its hosts
    past = (os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "").split(",")
    if any(host.strip() == "*" for host in past):
        return []
    hosts = [host.strip().lstrip("*.") for host in past if host.strip().strip("*.")]
    direct = "|".join(["localhost", "127.*", *(name for host in hosts for name in (host, f"*.{host}"))])
    flags = [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={port}"]
    return flags + [f"-Dhttp.nonProxyHosts={direct}"] * bool(hosts)


def pyspark_version() -> str:
    """The installed pyspark's.

    Raises:
        JarsUnresolved: there is none.
    """
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError as error:
        raise JarsUnresolved("pyspark is not installed", hint="pip install 'lakestreams[local]'") from error


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # found, not imported: importing takes a second
    roots = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for root in roots for jar in sorted(Path(root, "jars").glob("ivy-*.jar"))]
    if not found:
        raise JarsUnresolved(
            "the installed pyspark carries no Ivy (pyspark-client or a cut-down pyspark?)",
            hint=f"pip install pyspark=={next(iter(SPARK_PINS))}",
        )
    return found[-1]


def _ignore(_line: str) -> None:
    """Progress that nobody asked for."""


def main() -> None:
    """Resolves both sets at the same time (they wait on the network, not on each other) and prints where they are."""

    def say(line: str) -> None:
        sys.stderr.write(line + "\n")

    with ThreadPoolExecutor(2) as pool:
        sets = [pool.submit(spark_jars, say), pool.submit(broker_jars, say)]
    try:
        for jars in sets:
            sys.stdout.write(f"{jars.result()[0].parent}\n")
    except LakestreamsError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
