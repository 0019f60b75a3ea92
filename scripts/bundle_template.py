"""Writes bundle-template/: the template of `databricks bundle init`, made of the files that `lakestreams init` writes.

Its questions are the options of `lakestreams init`, and its text is the same text: the marks of `lakestreams.deploy.template`
become marks of Go. `--check` writes nothing and fails if a file is not up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lakestreams.deploy.template import (
    CLOUDS,
    FIRST_STEPS,
    HOST,
    HOST_HINT,
    JOBS,
    MARK,
    NAME,
    NAME_HINT,
    Project,
    kept_in,
    marked,
    only_used,
    shipped,
    split_topics,
    unmarked,
    values_of,
    whole,
)
from lakestreams.errors import InvalidOption

FOLDER: Final = Path(__file__).parents[1] / "bundle-template"
PROJECT: Final = "template/{{.project_name}}"
_ALL: Final = Project("project")
_ADDRESS: Final = "https://workspace"
_SOURCES: Final = "conf/sources.yml"

README: Final = """\
# Template of `databricks bundle init`

```sh
databricks bundle init bundle-template     # in a clone of lakestreams
```

It writes what `lakestreams init` writes. `scripts/bundle_template.py` makes this folder: do not edit it.
[Deployment](../docs/deploy.md) goes on from there.
"""


def template() -> dict[str, str]:
    """Every file of the template, path to text.

    Raises:
        ValueError: for a text that Go would take for a mark.
    """
    values = _values()
    made = {
        "README.md": README,
        "databricks_template_schema.json": json.dumps(schema(), indent=2) + "\n",
        "template/__preamble.tmpl": _preamble(),
        f"{PROJECT}/wheels/__folder.tmpl": '{{skip "__folder"}}\n',  # an empty folder, which git does not keep
        f"{PROJECT}/{_SOURCES}.tmpl": _sources(),
    }
    for name, text in marked(_ALL).items():
        translated = _translated(text, values)
        # a .gitignore would be obeyed in this repository
        suffix = ".tmpl" if "{{" in translated or name.startswith(".") else ""
        made[f"{PROJECT}/{name}{suffix}"] = translated
    return made | {f"{PROJECT}/{name}": text for name, text in unmarked(_ALL).items()}


def schema() -> dict[str, Any]:
    """What the CLI asks for."""
    asked: dict[str, dict[str, Any]] = {
        "project_name": {
            "default": "my-streams",
            "description": "Name of the bundle, and of its folder",
            "pattern": f"^{NAME.pattern}$",
            "pattern_match_failure_message": f"The name has {NAME_HINT}.",
        }
    }
    for job in JOBS:
        (does,) = re.findall(r"(?m)^      description: (.*)$", marked(_ALL)[f"resources/{job}.job.yml"])
        asked[f"include_{job}"] = {"default": "yes", "enum": ["yes", "no"], "description": f"Include {job}? {does}"}
    asked["host"] = {
        "default": "{{workspace_host}}",
        "description": "The workspace's address, for every target",
        "pattern": f"^({HOST.pattern})?$",
        "pattern_match_failure_message": f"An address is {HOST_HINT}.",
    }
    asked["cloud"] = {
        "default": CLOUDS[0],
        "enum": list(CLOUDS),
        "description": "The workspace's cloud: it decides the machine of clusters",
    }
    (oldest,) = re.findall(r'databricks_cli_version: ">= (\S+)"', marked(_ALL)["databricks.yml"])
    steps = "\n".join(f"  {step}" for step in ("cd {{.project_name}}", *FIRST_STEPS))
    return {
        "version": 1,
        "min_databricks_cli_version": f"v{oldest}",
        "welcome_message": "A bundle that joins Kafka topics into Delta tables with lakestreams.",
        "success_message": f"The jobs run wheels/{_ALL.wheel_name}; put it there. Then:\n{steps}",
        "properties": {
            name: {"type": "string"} | question | {"order": order}
            for order, (name, question) in enumerate(asked.items(), start=1)
        },
    }


# --- marks of Go -----------------------------------------------------------------------------------------------------


def _when(condition: str, text: str) -> str:
    return f"{{{{if {condition}}}}}{text}{{{{end}}}}" if condition else text


def _any_of(jobs: Iterable[str]) -> str:
    """The condition that one of the jobs is wanted; empty if it always holds, since a bundle has a job."""
    tests = [f'eq .include_{job} "yes"' for job in jobs]
    if len(tests) == len(JOBS):
        return ""
    return tests[0] if len(tests) == 1 else "or " + " ".join(f"({test})" for test in tests)


def _literal(text: str) -> str:
    if "{{" in text:
        msg = f"Go would read this as a mark: {text[text.index('{{') :][:60]!r}"
        raise ValueError(msg)
    return text


def _values() -> dict[str, str]:
    """What stands for each `@{name}`."""
    known, unknown = values_of(Project(_ALL.name, host=_ADDRESS)), values_of(_ALL)
    made = {name: _literal(text) for name, text in unknown.items()}
    for name in made:
        if known[name] != unknown[name]:
            given = known[name].replace(_ADDRESS, "{{.host}}")
            made[name] = f"{{{{if .host}}}}{given}{{{{else}}}}{unknown[name]}{{{{end}}}}"
    machines = {cloud: values_of(Project(_ALL.name, cloud=cloud))["node_type"] for cloud in CLOUDS}
    made["node_type"] = "".join(_when(f'eq .cloud "{cloud}"', machine) for cloud, machine in machines.items())
    made["pipelines"] = "".join(_pipeline(*JOBS[place:]) for place in range(len(JOBS)))
    return made | {"name": "{{.project_name}}", "title": "{{.project_name}}", "uuid": "{{bundle_uuid}}"}


def _pipeline(job: str, *later: str) -> str:
    """The path of a job's pipeline, and a comma if another one follows."""
    path = values_of(Project(_ALL.name, jobs=(job,)))["pipelines"]
    return _when(_any_of([job]), path + (_when(_any_of(later), ",") if later else ""))


def _translated(text: str, values: Mapping[str, str]) -> str:
    """A text with our marks, with Go's instead.

    Conditions stand in the line that they begin with, so that they add and take away nothing but their lines.
    """
    always, *parts = re.split(r"(?m)^@\{(?:if (\w+)|end)\}\n", _literal(text))
    made = [always]
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        jobs = [job for job in JOBS if name in kept_in(Project(_ALL.name, jobs=(job,)))]
        if name is None:
            made.append(part)
        elif jobs:  # the others are of no user's project: the wheel's build, dbx
            made.append(_when(_any_of(jobs), part))
    return MARK.sub(lambda mark: values[mark[1]], "".join(made))


def _sources() -> str:
    text = _literal(shipped(_SOURCES))
    pipelines = unmarked(_ALL)
    head, topics = split_topics(text)
    named = {job: split_topics(only_used(text, pipelines[f"conf/{job}.yml"]))[1] for job in JOBS}
    users = {topic: [job for job in JOBS if topic in named[job]] for topic in topics}
    return head + "".join(_when(_any_of(users[topic]), block) for topic, block in topics.items() if users[topic])


def _preamble() -> str:
    """Refuses a bundle without jobs, and leaves the files of jobs out that are not wanted."""
    try:
        Project(_ALL.name, jobs=())
    except InvalidOption as error:
        nothing = json.dumps(f"{error.message}: {error.hint}")
    none = " ".join(f'(eq .include_{job} "yes")' for job in JOBS)
    lines = ['{{skip "__preamble"}}', f"{{{{if not (or {none})}}}}{{{{fail {nothing}}}}}{{{{end}}}}"]
    for job in JOBS:
        others = tuple(other for other in JOBS if other != job)
        own = sorted(whole(_ALL).keys() - whole(Project(_ALL.name, jobs=others)).keys())
        left_out = "\n".join(f'{{{{skip "{{{{.project_name}}}}/{name}"}}}}' for name in own)
        lines.append(_when(f'not (eq .include_{job} "yes")', f"\n{left_out}\n"))
    return "\n".join(lines) + "\n"


# --- the folder ------------------------------------------------------------------------------------------------------


def outdated(folder: Path = FOLDER) -> list[str]:
    """Names of the files that are missing, have another text, or are not the template's."""
    wanted = template()
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    return sorted(name for name in there | wanted.keys() if _text(folder / name) != wanted.get(name))


def main(arguments: Sequence[str]) -> int:
    """Writes the files, or with `--check` only says which ones are not up to date."""
    names, wanted = outdated(), template()
    if "--check" in arguments:
        print("\n".join(f"{name} is not up to date" for name in names), file=sys.stderr)
        return int(bool(names))
    for name in names:
        file = FOLDER / name
        if name in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted[name], encoding="utf-8")
        else:
            file.unlink()
    print(f"{len(names)} files changed")
    return 0


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
