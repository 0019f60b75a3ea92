"""Jars: pinned to the byte, resolved once, published whole or not at all, and clear about it when they are not there."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

import pyspark
import pytest

from lakestreams.errors import JarsUnresolved, JavaMissing, JavaTooOld
from lakestreams.local import jars, java
from lakestreams.local.java import java_for_spark
from lakestreams.local.pins import BROKER_PINS, SPARK_PINS

SMALL = {
    "org.apache.kafka:kafka-group-coordinator-api:4.3.0": BROKER_PINS[
        "org.apache.kafka:kafka-group-coordinator-api:4.3.0"
    ]
}


@pytest.fixture
def empty_cache(small_jar, tmp_path, monkeypatch):
    """A cache of its own, and a repository in a folder instead of the network."""
    monkeypatch.setenv("LAKESTREAMS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LAKESTREAMS_LOG_DIR", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A Maven repository in a folder that holds what `put` puts there; Ivy is told to ask nobody else."""
    root = tmp_path / "repository"
    root.mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers>'
        f'<filesystem name="folder" m2compatible="true" checksums=""><artifact pattern="{root}/'
        '[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("LAKESTREAMS_IVY_SETTINGS", str(settings))

    def put(coordinate: str, content: bytes) -> None:
        group, artifact, version = coordinate.split(":")
        folder = root.joinpath(*group.split("."), artifact, version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{artifact}-{version}.jar").write_bytes(content)

    return put


@pytest.fixture(scope="module")
def small_jar() -> bytes:
    """A real jar of the broker's set, from the real cache: taken before a test points to another one."""
    return next(jar for jar in jars.broker_jars() if "group-coordinator-api" in jar.name).read_bytes()


@pytest.mark.parametrize("pins", [*SPARK_PINS.values(), BROKER_PINS], ids=[*SPARK_PINS, "broker"])
def test_every_pin_is_exact(pins):
    assert all(re.fullmatch(r"[\w.\-]+:[\w.\-]+:\d[\w.\-]*", coordinate) for coordinate in pins)
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pins.values())


@pytest.mark.parametrize("version", SPARK_PINS)
def test_nothing_that_pyspark_carries_itself(version):
    foreign = re.compile(r"hadoop-client|scala-library|slf4j|jackson|parquet|log4j|spark-(core|sql_|catalyst|tags)")
    assert not [coordinate for coordinate in SPARK_PINS[version] if foreign.search(coordinate)]


def test_both_sets_are_there_and_the_second_time_is_instant(monkeypatch):
    first = [jars.spark_jars(), jars.broker_jars()]
    monkeypatch.setattr(jars, "find_java", lambda: pytest.fail("resolved again"))
    started = time.monotonic()
    again = [jars.spark_jars(), jars.broker_jars()]
    assert time.monotonic() - started < 0.2
    assert again == first
    assert [len(found) for found in again] == [len(SPARK_PINS[pyspark.__version__]), len(BROKER_PINS)]
    assert all(jar.is_file() for found in again for jar in found)


def test_resolved_from_a_mirror_and_published_whole(empty_cache, repository, small_jar):
    repository(next(iter(SMALL)), small_jar)
    lines: list[str] = []
    (found,) = jars.pinned_jars("small", SMALL, lines.append)
    assert found.read_bytes() == small_jar
    assert found.parent.parent == empty_cache
    assert len(lines) == 2
    assert not list(empty_cache.glob(".jars-*"))


def test_a_jar_that_is_not_the_pinned_one_is_refused(empty_cache, repository):
    repository(next(iter(SMALL)), b"something else")
    with pytest.raises(JarsUnresolved, match="not the jar that was pinned"):
        jars.pinned_jars("small", SMALL, None)
    assert not list(empty_cache.glob("jars-*/*.jar"))


def test_unreachable_repository_names_the_jar_and_the_log(empty_cache, repository):
    with pytest.raises(JarsUnresolved) as caught:
        jars.pinned_jars("small", SMALL, None)
    assert "kafka-group-coordinator-api" in caught.value.message
    log = re.search(r"whole output: (\S+)", caught.value.message)
    assert log is not None
    assert "kafka-group-coordinator-api" in Path(log.group(1)).read_text()


def test_a_set_that_lost_a_jar_is_resolved_again(empty_cache, repository, small_jar):
    repository(next(iter(SMALL)), small_jar)
    (found,) = jars.pinned_jars("small", SMALL, None)
    found.unlink()
    assert jars.pinned_jars("small", SMALL, None)[0].is_file()


def test_two_at_once_resolve_once(empty_cache, repository, small_jar):
    repository(next(iter(SMALL)), small_jar)
    lines: list[str] = []
    threads = [threading.Thread(target=jars.pinned_jars, args=("small", SMALL, lines.append)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum("resolving" in line and "only once" in line for line in lines) == 1


def test_unknown_pyspark_says_which_are_known(monkeypatch):
    monkeypatch.setattr(jars, "pyspark_version", lambda: "3.5.0")
    with pytest.raises(JarsUnresolved, match=r"3\.5\.0.*4\.2\.0"):
        jars.spark_jars()


def test_proxy_of_the_environment_reaches_java(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://user@proxy.example:3128")
    assert jars._proxy_flags() == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ("proxy.example:3128", ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]),
        ("", []),
    ],
)
def test_a_proxy_may_be_named_without_its_scheme(monkeypatch, given, flags):
    monkeypatch.setenv("HTTPS_PROXY", given)
    assert jars._proxy_flags() == flags


def test_hosts_that_need_no_proxy_reach_java_too(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "mirror.example, .inner.example")
    direct = "localhost|127.*|mirror.example|*.mirror.example|inner.example|*.inner.example"
    assert jars._proxy_flags()[2:] == [f"-Dhttp.nonProxyHosts={direct}"]


def test_a_proxy_that_is_none_is_told(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:port")
    with pytest.raises(JarsUnresolved, match="HTTPS_PROXY"):
        jars._proxy_flags()


@pytest.mark.parametrize(
    ("pyspark", "version", "fits"), [("4.0.2", 25, False), ("4.0.2", 21, True), ("4.2.0", 25, True)]
)
def test_a_java_that_is_too_new_for_the_installed_spark_is_told(tmp_path, monkeypatch, pyspark, version, fits):
    fake_java(tmp_path, f'openjdk version "{version}.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if fits:
        assert java_for_spark(pyspark) == tmp_path / "bin" / "java"
        return
    with pytest.raises(JavaMissing, match=rf"is version {version}; pyspark {pyspark} needs 17 to 22"):
        java_for_spark(pyspark)


def fake_java(folder: Path, report: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{report}' >&2\n")
    program.chmod(0o755)


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="no java on PATH"):
        java.find_java()


def test_java_home_without_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="no bin/java"):
        java.find_java()


@pytest.mark.parametrize(("report", "version"), [('java version "1.8.0_292"', "8"), ('openjdk version "11.0.2"', "11")])
def test_old_java_is_named_with_its_version(tmp_path, monkeypatch, report, version):
    fake_java(tmp_path, report)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaTooOld, match=f"version {version};"):
        java.find_java()


def test_early_access_java_is_recent_enough(tmp_path, monkeypatch):
    fake_java(tmp_path, 'openjdk version "25-ea" 2025-09-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.find_java() == tmp_path / "bin" / "java"


@pytest.mark.parametrize(
    ("said", "meant"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8"), (None, None)]
)
def test_java_names_files_as_python_does(monkeypatch, said, meant):
    """With `LC_ALL=C` it refused each lake with an umlaut in its path."""
    monkeypatch.delenv("LC_ALL", raising=False)
    if said is not None:
        monkeypatch.setenv("LC_ALL", said)
    java.use_utf8_names()
    assert os.environ.get("LC_ALL") == meant
    monkeypatch.delenv("LC_ALL", raising=False)
