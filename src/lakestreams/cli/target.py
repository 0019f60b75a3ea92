"""`check --target` and `status --target`: a bundle without a workspace, and what a workspace has of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.deploy import dbx, deployed, fields, files, rules, topics, workspace
from lakestreams.deploy.read import Bundle, User, load
from lakestreams.deploy.validated import Validated, validated
from lakestreams.errors import BundleInvalid, LakestreamsError, TopicMissing, WorkspaceLacks
from lakestreams.run import failure

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

    from lakestreams.config.compile import Pipeline


@dataclass
class TargetReport:
    """What a check found out about one target.

    Attributes:
        target: its name.
        faults: of the bundle and of the pipelines' files that it deploys, and what workspace and broker lack.
        requirements: what its jobs need of the workspace.
        topics: what they need of Kafka.
        warnings: partition counts that are unequal where that is said to be no fault.
        unchecked: what could not be looked at.
    """

    target: str
    faults: list[LakestreamsError] = field(default_factory=list)
    requirements: list[workspace.Requirement] = field(default_factory=list)
    topics: list[workspace.Requirement] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong and nothing is known to lack."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "target": self.target,
            "ok": self.ok,
            "faults": [fault.as_dict() for fault in self.faults],
            "workspace": [asdict(one) for one in self.requirements],
            "topics": [asdict(one) for one in self.topics],
            "warnings": self.warnings,
            "unchecked": self.unchecked,
        }


def variables_of(assignments: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables of a bundle, as the CLI takes them: `--var name=value` before BUNDLE_VAR_<name>.

    Raises:
        typer.BadParameter: for one without `=`.
    """
    variables = {
        name.removeprefix("BUNDLE_VAR_"): value for name, value in environment.items() if name.startswith("BUNDLE_VAR_")
    }
    for one in assignments:
        name, assigned, value = one.partition("=")
        if not assigned:
            msg = f"--var {one}: write it like catalog=dev_ada"
            raise typer.BadParameter(msg)
        variables[name] = value
    return variables


@dataclass(frozen=True)
class Target:
    """A target of a bundle: the folder of databricks.yml, the target's name, the bundle's variables."""

    root: Path
    name: str
    variables: Mapping[str, str]

    @classmethod
    def of(cls, root: Path, name: str, assignments: Sequence[str] | None) -> Target:
        """The target with the variables of the options and of the environment.

        Raises:
            typer.BadParameter: for a variable without a value.
        """
        return cls(root, name, variables_of(assignments or ()))

    def load(self, user: User | None = None, answers: Mapping[str, Any] | None = None) -> Bundle:
        """The bundle as this target has it.

        Raises:
            ConfigUnreadable, BundleInvalid: if it cannot be read, or has no such target.
        """
        return load(self.root, self.name, self.variables, user, answers)


def check(screen: Screen, target: Target, *, ask: bool = True, broker: bool = True) -> TargetReport:
    """Checks a target and tells what is wrong and what is lacking, each with its fix.

    Args:
        screen: where to tell it.
        target: the target.
        ask: whether anybody is asked: the workspace, and Kafka.
        broker: whether Kafka is.

    Raises:
        ConfigUnreadable, BundleInvalid: if the bundle cannot be read, or has no such target.
    """
    report = TargetReport(target.name)
    resolved = _validated(screen, target) if ask else Validated()
    bundle = target.load(answers=resolved.answers)
    pipelines, unusable = files.pipelines(bundle)
    report.faults = [*rules.faults(bundle), *unusable]
    if resolved.refused:
        message = f"databricks bundle validate: {resolved.refused}"
        report.faults.append(BundleInvalid(message, "what the CLI says of it", f"target {target.name}"))
    report.unchecked += rules.unchecked(bundle)
    if report.unchecked and resolved.silent:
        report.unchecked.append(f"what `databricks bundle validate` says: {resolved.silent}")
    for fault in report.faults:
        screen.failure(fault)
    differing = None if report.faults else dbx.drift(target.root)
    if not fields.known():
        report.unchecked.append("names and types of the jobs' fields: pip install 'lakestreams[databricks]'")
    if not ask:
        report.unchecked.append("the workspace, topics and their partition counts: --no-workspace")
    elif report.faults:
        report.unchecked.append("the workspace, topics and their partition counts: correct the bundle first")
    else:
        _look(screen, report, bundle, target, pipelines, resolved.answers)
        if broker:
            _look_at_topics(screen, report, bundle, pipelines)
        else:
            report.unchecked.append("topics and their partition counts: --no-broker")
    if tables := files.delta_tables(pipelines):
        report.unchecked.append(
            f"Delta tables that are read: {', '.join(tables)}; they must be there, and the jobs' principal needs SELECT on them"
        )
    if differing is not None:  # which keeps nobody from looking at the workspace
        screen.failure(differing)
        report.faults.append(differing)
    _show(screen, report, bundle)
    return report


def _validated(screen: Screen, target: Target) -> Validated:
    with screen.working("asking the Databricks CLI"):
        return validated(target.root, target.name, target.variables)


def _look(
    screen: Screen,
    report: TargetReport,
    bundle: Bundle,
    target: Target,
    pipelines: list[Pipeline],
    answers: Mapping[str, Any],
) -> None:
    try:
        with screen.working("asking the workspace"):
            client, bundle = _connected(bundle, target, answers)
            secrets, credentials = files.secrets(bundle, pipelines), files.credentials(pipelines)
            report.requirements = workspace.examine(client, bundle, secrets, credentials)
    except LakestreamsError as error:
        screen.failure(error)
        report.faults.append(error)
        report.unchecked.append("the workspace")
        return
    lacking = [one for one in report.requirements if one.state == "lacking"]
    report.faults += [
        WorkspaceLacks(one.what + (f": {one.note}" if one.note else ""), hint=one.fix, where=f"target {report.target}")
        for one in lacking
    ]
    report.unchecked += [f"{one.what}: {one.note}" for one in report.requirements if one.state == "unknown"]


def _look_at_topics(screen: Screen, report: TargetReport, bundle: Bundle, pipelines: list[Pipeline]) -> None:
    readings, faults = files.readings(bundle, pipelines)
    with screen.working("asking Kafka"):
        judged = topics.examine(readings)
    report.topics, report.warnings = judged.requirements, judged.warnings
    for fault in (*faults, *(one for one in judged.faults if not isinstance(one, TopicMissing))):
        screen.failure(fault)  # of a topic that is missing the table tells
    report.faults += [*faults, *judged.faults]
    report.unchecked += judged.unchecked


def _connected(
    bundle: Bundle, target: Target, answers: Mapping[str, Any] | None = None
) -> tuple[WorkspaceClient, Bundle]:
    """A client of the target's workspace, and the bundle once more, now that it is known who deploys."""
    place: Mapping[str, Any] = bundle.config["workspace"]
    client = workspace.connect(place.get("host"), place.get("profile"))
    user = User(client.current_user.me().user_name or User.name)
    return client, target.load(user, answers)


def _show(screen: Screen, report: TargetReport, bundle: Bundle) -> None:
    words = {"there": ("there", "green"), "lacking": ("LACKING", "bold red"), "unknown": ("not known", "yellow")}
    needed = [*report.requirements, *report.topics]
    if needed:
        rows = [(one.what, Text(*words[one.state]), one.note) for one in needed]
        screen.show(table("needed", "found", "note", title=f"target {report.target}", rows=rows))
    mended = [one for one in needed if one.state == "lacking"]
    if mended:
        screen.say(Text("What brings it", style="bold"))
        for fix in dict.fromkeys(one.fix for one in mended):
            screen.say(f"  {fix}")
    for warning in report.warnings:
        screen.say(Text.assemble(("warning", "yellow"), f"  {warning}"))
    for what in report.unchecked:
        screen.say(Text.assemble(("not checked", "dim"), f"  {what}"))
    if report.ok:
        kinds = {"jobs": bundle.jobs, "dashboards": bundle.dashboards}
        deployed = "; ".join(f"{kind} {', '.join(items)}" for kind, items in kinds.items() if items)
        screen.say(Text.assemble(("ok", "bold green"), f"  target {report.target}: {deployed}"))


def status(screen: Screen, target: Target) -> int:
    """Shows the target's jobs as they are deployed, their last runs, and its dashboards; returns the exit code."""
    with screen.working("asking the workspace"):
        client, bundle = _connected(target.load(), target)
        jobs = deployed.deployed(client, bundle)
        dashboards = deployed.shown(client, bundle)
    rows = [
        (
            one.name,
            one.job_id and str(one.job_id),
            one.starts and one.starts + (" (paused)" if one.paused else ""),
            _result(one),
            one.started_at and one.started_at.replace("+00:00", "Z"),
            one.seconds and f"{one.seconds:.0f} s",
        )
        for one in jobs
    ]
    title = f"target {target.name} as {bundle.user.name}"
    screen.show(table("job", "id", "starts", "last run", "began", "took", title=title, rows=rows))
    if dashboards:
        places = [
            (
                one.name,
                one.dashboard_id or Text("not deployed", style="yellow"),
                one.published_at or (one.dashboard_id and Text("not published", style="yellow")),
                one.path,
            )
            for one in dashboards
        ]
        screen.show(table("dashboard", "id", "published", "in the workspace", rows=places))
    if any(one.job_id is None for one in jobs) or any(one.dashboard_id is None for one in dashboards):
        screen.say(f"what is not deployed: databricks bundle deploy -t {target.name}")
    state = {"jobs": [asdict(one) for one in jobs], "dashboards": [asdict(one) for one in dashboards]}
    screen.result({"target": target.name, "user": bundle.user.name} | state)
    return failure.OK


def _result(one: deployed.Deployed) -> Text | str | None:
    if one.job_id is None:
        return Text("not deployed", style="yellow")
    if one.result is None:
        return None
    return Text(one.result, style="green" if one.result == "SUCCESS" else "bold red" if "FAIL" in one.result else "")
