"""scripts/bootstrap.sh: says what is missing, redoes what was interrupted, and costs nothing the second time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path):
    """A copy of the set-up scripts with empty pins and a package whose jars are there at once: no network, no Spark."""
    root = tmp_path / "tree"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    # The base Python's pip instead of a copy of it in each environment: that takes six seconds a time.
    make_venv = root / "scripts" / "make_venv.py"
    text = make_venv.read_text()
    assert '"-m", "venv", ' in text
    make_venv.write_text(text.replace('"-m", "venv", ', '"-m", "venv", "--without-pip", "--system-site-packages", '))
    (root / "requirements").mkdir()
    for name in ("local.txt", "dev.txt"):
        (root / "requirements" / name).write_text("# nothing\n")
    (root / "src" / "lakestreams" / "local").mkdir(parents=True)
    (root / "src" / "lakestreams" / "local" / "jars.py").write_text("")
    return root


def bootstrap(tree, **environment):
    python = getattr(sys, "_base_executable", sys.executable)
    cache = str(tree.parent / "cache")
    settings = {"LAKESTREAMS_CACHE": cache, "LAKESTREAMS_SPARK": "", "PYTHON": python, **environment}
    kept = {**os.environ, **settings}
    return subprocess.run(
        ["sh", str(tree / "scripts" / "bootstrap.sh")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={key: value for key, value in kept.items() if value},
    )


def fake(folder, name, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)


def test_prints_a_python_that_runs_and_the_second_time_at_once(tree):
    first = bootstrap(tree)
    assert first.returncode == 0, first.stderr
    python = first.stdout.strip()
    assert subprocess.run([python, "-c", ""], check=False).returncode == 0
    started = time.monotonic()
    second = bootstrap(tree)
    assert time.monotonic() - started < 0.2
    assert (second.stdout, second.stderr) == (first.stdout, "")


@pytest.mark.slow
def test_an_interrupted_set_up_is_done_again(tree):
    venv = Path(bootstrap(tree).stdout.strip()).parents[1]
    (venv / "complete").unlink()
    (venv / "left-over").write_text("")
    again = bootstrap(tree)
    assert "preparing" in again.stderr
    assert (venv / "complete").is_file()
    assert not (venv / "left-over").exists()


def test_failed_installation_leaves_nothing_that_counts(tree):
    (tree / "requirements" / "dev.txt").write_text("./no-such-package.whl\n")
    failed = bootstrap(tree)
    assert failed.returncode != 0
    assert "could not be installed" in failed.stderr
    assert failed.stdout == ""
    assert not list((tree.parent / "cache").glob("venv-*/complete"))


@pytest.mark.slow
def test_other_pins_are_another_environment(tree):
    first = bootstrap(tree).stdout
    (tree / "requirements" / "dev.txt").write_text("# still nothing\n")
    assert bootstrap(tree).stdout != first


def test_two_at_once_make_one(tree):
    command = ["sh", str(tree / "scripts" / "bootstrap.sh")]
    others = {key: value for key, value in os.environ.items() if key != "LAKESTREAMS_SPARK"}
    environment = {**others, "LAKESTREAMS_CACHE": str(tree.parent / "cache"), "PYTHON": sys._base_executable}
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120) for process in both]
    assert said[0][0] == said[1][0] != ""
    assert sum("preparing Python" in errors for _, errors in said) == 1


def test_no_java(tree, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "cat", "mkdir", "cksum", "tr", "sed", "head"):
        (tools / name).symlink_to(shutil.which(name))
    done = bootstrap(tree, JAVA_HOME="", PATH=str(tools))
    assert done.returncode == 1
    assert "no Java found" in done.stderr
    assert "apt-get install openjdk-17" in done.stderr


@pytest.mark.parametrize(("report", "version"), [('java version "1.8.0_292"', "8"), ('openjdk version "11.0.2"', "11")])
def test_old_java_is_named_with_its_version(tree, tmp_path, report, version):
    fake(tmp_path / "jdk" / "bin", "java", f"echo '{report}' >&2")
    done = bootstrap(tree, JAVA_HOME=str(tmp_path / "jdk"))
    assert done.returncode == 1
    assert f"is version {version};" in done.stderr


def test_python_that_does_not_fit_is_named(tree, tmp_path):
    fake(tmp_path / "bin", "python", "echo Python 3.9.1", "exit 1")
    done = bootstrap(tree, PYTHON=str(tmp_path / "bin" / "python"))
    assert done.returncode == 1
    assert "It says: Python 3.9.1" in done.stderr


def test_no_venv_module(tree, tmp_path):
    fake(tmp_path / "bin", "python", f'case "$*" in *"-m venv"*) exit 1;; esac; exec {sys._base_executable} "$@"')
    make_venv = tree / "scripts" / "make_venv.py"
    text = make_venv.read_text().replace("[sys.executable, ", f"[{str(tmp_path / 'bin' / 'python')!r}, ")
    make_venv.write_text(text)
    done = bootstrap(tree)
    assert done.returncode == 1
    assert "python3-venv" in done.stderr


def test_without_a_home_it_says_what_to_set(tree):
    done = bootstrap(tree, LAKESTREAMS_CACHE="", XDG_CACHE_HOME="", HOME="")
    assert done.returncode == 1
    assert "HOME is not set" in done.stderr


def test_recipes_run_a_python_whose_path_has_a_space(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / "a cache" / "python"
    fake(python.parent, "python", 'echo "ran $*"')
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "bootstrap.sh").write_text(f"echo '{python}'\n")
    for goal, last in (("demo", "lakestreams demo"), ("check", "loadfile --no-loadscope-reorder"), ("bench", "growth")):
        done = subprocess.run(
            ["make", "--no-print-directory", "-C", str(tmp_path), goal], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip().endswith(last)


def test_what_is_resolved_again_when_it_is_needed_is_removed_on_demand(tmp_path):
    for name in ("jars-1", "registry-jars-1", ".registry-jars-1.part", "broker"):
        (tmp_path / name).mkdir()
    environment = {**os.environ, "LAKESTREAMS_CACHE": str(tmp_path)}
    subprocess.run(["make", "-C", str(ROOT), "clean-cache"], env=environment, check=True, capture_output=True)
    assert [one.name for one in tmp_path.iterdir()] == ["broker"], "data are nobody's to remove"


def test_no_path_of_this_machine_and_no_host_in_the_scripts():
    for file in [
        *(ROOT / "scripts").iterdir(),
        ROOT / "Makefile",
        ROOT / ".ci" / "run",
        *(ROOT / "requirements").iterdir(),
    ]:
        if file.is_file():
            text = file.read_text().replace("https://registry:8081", "").replace("https://workspace", "")  # examples
            assert "://" not in text, file
            assert "--index" not in text, file
