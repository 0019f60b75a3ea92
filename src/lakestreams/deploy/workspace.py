"""What a workspace has of what a bundle needs, asked through databricks-sdk.

Nothing here changes anything. What is lacking comes with the command that brings it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal

import lakestreams
from lakestreams.deploy.read import Bundle
from lakestreams.errors import LocalPartsMissing, WorkspaceUnreachable
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

State = Literal["there", "lacking", "unknown"]
Secret = tuple[str, str]
"""Scope and key."""

EVERYBODY: Final = ("account users", "users")
SCHEMA_RIGHTS: Final = ("USE_SCHEMA", "CREATE_TABLE", "SELECT", "MODIFY")
VOLUME_RIGHTS: Final = ("READ_VOLUME", "WRITE_VOLUME")
CREDENTIAL_RIGHTS: Final = ("ACCESS",)
_SQL_KINDS: Final = {"credential": "SERVICE CREDENTIAL"}
"""What GRANT calls a kind of securable, where that is not the API's word in capitals."""
_UNNAMED: Final = "its name is known where the Databricks CLI resolves it"
_FIRST_S: Final = 3  # a host that is mistyped answers never, one that answers may be busy later
_RETRY_S: Final = 20
_CALL_S: Final = 30


@dataclass(frozen=True)
class Requirement:
    """One thing that the jobs of a target need.

    Attributes:
        what: such as `schema prod.silver`.
        state: whether it is there; `unknown` where the workspace does not tell us.
        note: what is known besides that.
        fix: the command that brings it, or what to do.
    """

    what: str
    state: State
    note: str = ""
    fix: str = ""


def connect(host: str | None = None, profile: str | None = None) -> WorkspaceClient:
    """A client whose credentials were tried: from the arguments, the environment, or the CLI's configuration.

    Raises:
        LocalPartsMissing: if databricks-sdk is not installed.
        WorkspaceUnreachable: if there are no credentials, or the workspace refuses them or does not answer.
    """
    try:
        from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - an optional part
        from databricks.sdk.core import Config  # noqa: PLC0415 - see above
        from databricks.sdk.errors.base import DatabricksError  # noqa: PLC0415 - see above
    except ModuleNotFoundError as error:
        msg = f"the package {error.name} is not installed"
        raise LocalPartsMissing(msg, hint="pip install 'lakestreams[databricks]'") from error
    logging.getLogger("databricks.sdk").addHandler(logging.NullHandler())  # what it tries in vain is in the error
    try:
        config = Config(
            host=host,
            profile=profile,
            http_timeout_seconds=_CALL_S,
            retry_timeout_seconds=_FIRST_S,
            product="lakestreams",
            product_version=lakestreams.__version__,
        )
        hasty = WorkspaceClient(config=config)
        config.retry_timeout_seconds = _RETRY_S
        client = WorkspaceClient(config=config)
        try:
            hasty.current_user.me()
        except TimeoutError as error:
            if not isinstance(error.__cause__, DatabricksError):
                raise  # nobody answers
            client.current_user.me()  # it is busy
    except Exception as error:
        msg = f"the workspace {host or ''} cannot be reached: {reason(error)}".replace("  ", " ")
        raise WorkspaceUnreachable(msg) from error
    return client


def reason(error: Exception) -> str:
    """What the SDK says, without its classes and settings."""
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    text = re.sub(r"\. Config: .*", "", text)
    caused = re.search(r"\(Caused by \w+\(.*?: (.*?)[\"']?\)\)$", text)
    return caused[1] if caused else text


# --- what a target needs ---------------------------------------------------------------------------------------------


def examine(
    client: WorkspaceClient, bundle: Bundle, secrets: Sequence[Secret] = (), credentials: Sequence[str] = ()
) -> list[Requirement]:
    """What the target's jobs need, and whether it is there.

    Args:
        client: of the workspace.
        bundle: for the target, resolved for who deploys.
        secrets: what the pipelines' files refer to, scopes as they will be looked up.
        credentials: the Unity Catalog service credentials that they sign in to Kafka with.
    """
    found = _Examination(client, bundle).requirements(secrets, credentials)
    return [replace(one, state="unknown", note=_UNNAMED) if "${" in one.what else one for one in found]


@dataclass
class _Examination:
    client: WorkspaceClient
    bundle: Bundle
    absent: dict[str, str] = field(default_factory=dict)  # catalogs and schemas that nothing below can be looked at of

    def __post_init__(self) -> None:
        run_as: Mapping[str, Any] = self.bundle.config.get("run_as") or {}
        self.runner = str(next(iter(run_as.values()), self.bundle.user.name))
        self.deploy = f"databricks bundle deploy -t {quote(self.bundle.target)}"

    def requirements(self, secrets: Sequence[Secret], credentials: Sequence[str]) -> Iterator[Requirement]:
        yield from self._runner()
        yield from self._groups()
        yield from self._catalogs()
        for item in self.bundle.resources.get("schemas", {}).values():
            name = f"{item['catalog_name']}.{item['name']}"
            yield from self._securable("schema", name, item["catalog_name"], SCHEMA_RIGHTS)
        for item in self.bundle.resources.get("volumes", {}).values():
            parent = f"{item['catalog_name']}.{item['schema_name']}"
            yield from self._securable("volume", f"{parent}.{item['name']}", parent, VOLUME_RIGHTS)
        yield from self._secrets(secrets)
        yield from self._credentials(credentials)
        yield from self._clusters()
        yield from self._warehouses()

    def _runner(self) -> Iterator[Requirement]:
        if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", self.runner):
            return
        asked = self._ask(lambda: list(self.client.service_principals.list(filter=f'applicationId eq "{self.runner}"')))
        fix = f"databricks service-principals list; then --var runner=<application id>, or in {self.bundle.target}'s variables"
        yield _requirement(f"service principal {self.runner}", asked, exists=bool(asked.value), fix=fix)

    def _groups(self) -> Iterator[Requirement]:
        """The groups that the bundle gives permissions to."""
        held = [self.bundle.config, *(item for items in self.bundle.resources.values() for item in items.values())]
        given = [one for part in held for one in part.get("permissions") or [] if isinstance(one, Mapping)]
        for name in dict.fromkeys(one["group_name"] for one in given if "group_name" in one):
            asked = self._ask(partial(_groups, self.client, name))
            fix = f"databricks groups create --display-name {quote(name)}; or name another one in databricks.yml"
            yield _requirement(f"group {name}", asked, exists=bool(asked.value), fix=fix)

    def _catalogs(self) -> Iterator[Requirement]:
        items = [item for kind in ("schemas", "volumes") for item in self.bundle.resources.get(kind, {}).values()]
        for name in dict.fromkeys(item["catalog_name"] for item in items):
            asked = self._ask(partial(self.client.catalogs.get, name))
            yield self._noted(
                _requirement(f"catalog {name}", asked, fix=f"databricks catalogs create {quote(name)}"), name
            )
            if asked.value is not None:
                me, deploys = self.bundle.user.name, ("USE_CATALOG", "CREATE_SCHEMA")
                if self.runner != me:
                    yield from self._rights("catalog", name, asked.value.owner, self.runner, ("USE_CATALOG",))
                yield from self._rights("catalog", name, asked.value.owner, me, deploys)

    def _securable(self, kind: str, name: str, parent: str, rights: Sequence[str]) -> Iterator[Requirement]:
        if parent in self.absent:
            self.absent[name] = self.absent[parent]
            yield Requirement(f"{kind} {name}", "unknown", self.absent[parent], self.deploy)
            return
        read: Callable[[str], Any] = self.client.schemas.get if kind == "schema" else self.client.volumes.read
        asked = self._ask(lambda: read(name))
        yield self._noted(_requirement(f"{kind} {name}", asked, fix=self.deploy), name)
        if asked.value is not None:
            yield from self._rights(kind, name, asked.value.owner, self.runner, rights)

    def _rights(
        self, kind: str, name: str, owner: str | None, who: str, wanted: Sequence[str]
    ) -> Iterator[Requirement]:
        what = f"{who} on {kind} {name}: {', '.join(wanted)}"
        if owner == who:
            yield Requirement(what, "there", "owner")
            return
        asked = self._ask(lambda: self.client.grants.get_effective(kind, name))
        held: set[str] = set()
        for one in (asked.value.privilege_assignments or []) if asked.value is not None else []:
            if one.principal in (who, *EVERYBODY):
                held |= {right.privilege.value for right in one.privileges or [] if right.privilege}
        missing = [] if "ALL_PRIVILEGES" in held else [one for one in wanted if one not in held]
        words = ", ".join(one.replace("_", " ") for one in missing)
        fix = f"GRANT {words} ON {_SQL_KINDS.get(kind, kind.upper())} {quoted(*name.split('.'))} TO {quoted(who)}"
        note = (
            f"{', '.join(missing)} not granted to it, nor to all; a group that it is in may have it" if missing else ""
        )
        yield _requirement(what, asked, exists=not missing, fix=fix, note=note)

    def _secrets(self, secrets: Sequence[Secret]) -> Iterator[Requirement]:
        if not secrets:
            return
        asked = self._ask(lambda: [one.name for one in self.client.secrets.list_scopes()])
        own = [one["name"] for one in self.bundle.resources.get("secret_scopes", {}).values()]
        for scope in dict.fromkeys(scope for scope, _ in secrets):
            exists = scope in (asked.value or [])
            making = self.deploy if scope in own else f"databricks secrets create-scope {quote(scope)}"
            yield _requirement(f"secret scope {scope}", asked, exists=exists, fix=making)
            keys = self._ask(partial(_keys, self.client, scope))
            for key in dict.fromkeys(key for one, key in secrets if one == scope):
                fix = f"databricks secrets put-secret {quote(scope)} {quote(key)}"
                yield _requirement(f"secret {scope}/{key}", keys, exists=key in (keys.value or []), fix=fix)
            if exists:
                acls = self._ask(partial(_readers, self.client, scope))
                readable = any(one in (self.runner, "users") for one in acls.value or [])
                fix = (
                    self.deploy
                    if scope in own
                    else f"databricks secrets put-acl {quote(scope)} {quote(self.runner)} READ"
                )
                yield _requirement(f"{self.runner} on secret scope {scope}: READ", acls, exists=readable, fix=fix)

    def _credentials(self, names: Sequence[str]) -> Iterator[Requirement]:
        for name in names:
            asked = self._ask(partial(self.client.credentials.get_credential, name))
            # what it is made of is the cloud's; here that of AWS
            body = {"name": name, "purpose": "SERVICE", "aws_iam_role": {"role_arn": "<arn>"}}
            fix = f"databricks credentials create-credential --json {quote(json.dumps(body))}; or with azure_managed_identity"
            purpose = asked.value.purpose if asked.value is not None else None
            if purpose is not None and purpose.value != "SERVICE":
                note = f"there is one of this name for {purpose.value.lower()}, which nobody signs in with"
                fix = f"{fix}; under another name"
                yield Requirement(f"service credential {name}", "lacking", note, fix)
                continue
            yield _requirement(f"service credential {name}", asked, fix=fix)
            if asked.value is not None:
                yield from self._rights("credential", name, asked.value.owner, self.runner, CREDENTIAL_RIGHTS)

    def _clusters(self) -> Iterator[Requirement]:
        made = [one["new_cluster"] for job in self.bundle.jobs.values() for one in job.get("job_clusters", [])]
        if not made:
            return
        versions = self._ask(lambda: [one.key for one in self.client.clusters.spark_versions().versions or []])
        nodes = self._ask(lambda: [one.node_type_id for one in self.client.clusters.list_node_types().node_types or []])
        # a policy may say the runtime, and an instance pool has its own machines
        for name in dict.fromkeys(one["spark_version"] for one in made if "spark_version" in one):
            fix = "databricks clusters spark-versions; then the variable runtime"
            yield _requirement(f"runtime {name}", versions, exists=name in (versions.value or []), fix=fix)
        for name in dict.fromkeys(one["node_type_id"] for one in made if "node_type_id" in one):
            fix = "databricks clusters list-node-types; then the variable node_type"
            yield _requirement(f"node type {name}", nodes, exists=name in (nodes.value or []), fix=fix)

    def _warehouses(self) -> Iterator[Requirement]:
        for name in dict.fromkeys(one["warehouse_id"] for one in self.bundle.dashboards.values()):
            asked = self._ask(partial(self.client.warehouses.get, name))
            fix = f"databricks warehouses list; then --var warehouse_id=<id>, or in {self.bundle.target}'s variables"
            yield _requirement(f"SQL warehouse {name}", asked, fix=fix)

    def _noted(self, requirement: Requirement, name: str) -> Requirement:
        if requirement.state != "there":
            known = requirement.state == "lacking"
            self.absent[name] = f"{name} is not there" if known else f"it is not known whether {name} is there"
        return requirement

    def _ask(self, call: Callable[[], Any]) -> _Asked:
        """The answer; None where there is no such thing; with a reason where we may not ask."""
        from databricks.sdk.errors import NotFound  # noqa: PLC0415 - an optional part
        from databricks.sdk.errors.base import DatabricksError  # noqa: PLC0415 - see above

        try:
            return _Asked(call())
        except NotFound:
            return _Asked(None)
        except (DatabricksError, TimeoutError, OSError) as error:
            return _Asked(None, (str(error).strip().splitlines() or [type(error).__name__])[0])


def _keys(client: WorkspaceClient, scope: str) -> list[str | None]:
    return [one.key for one in client.secrets.list_secrets(scope)]


def _groups(client: WorkspaceClient, name: str) -> list[str | None]:
    return [one.display_name for one in client.groups.list(filter=f'displayName eq "{name}"')]


def _readers(client: WorkspaceClient, scope: str) -> list[str | None]:
    return [one.principal for one in client.secrets.list_acls(scope)]  # every level of a scope contains READ


@dataclass(frozen=True)
class _Asked:
    value: Any
    refused: str | None = None


def _requirement(what: str, asked: _Asked, *, fix: str, exists: bool | None = None, note: str = "") -> Requirement:
    if asked.refused is not None:
        return Requirement(what, "unknown", asked.refused, fix)
    if asked.value is not None if exists is None else exists:
        return Requirement(what, "there")
    return Requirement(what, "lacking", note, fix)
