"""A workspace in memory, on loopback, for databricks-sdk and the Databricks CLI: it takes what a workspace takes and
refuses what one refuses.

It knows nothing of `lakestreams.deploy`: what it refuses, it refuses by rules of its own, over bodies as they arrive. Jobs
are run for real, by the entry points of the wheel that was uploaded, in processes of their own; volumes and workspace
files are folders below `disk`, and a catalog's tables lie in its volume's folder. Nothing starts by itself, continuous
jobs neither.

Routes are those that the SDK and the CLI call for what we do; any other is 404, and is remembered.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from databricks.sdk.service.catalog import CredentialInfo
from databricks.sdk.service.dashboards import Dashboard
from tests.deploy.fake_jobs import NODES, RUNTIMES, Jobs
from tests.deploy.refusals import Refused, demand, difference, invalid, no_such

PURPOSES = ("SERVICE", "STORAGE")
IDENTITIES = ("aws_iam_role", "azure_managed_identity", "azure_service_principal", "databricks_gcp_service_account")
RIGHTS = {
    "SERVICE": {"ACCESS", "CREATE_CONNECTION", "MANAGE", "ALL_PRIVILEGES"},
    "STORAGE": {
        "CREATE_EXTERNAL_LOCATION",
        "CREATE_EXTERNAL_TABLE",
        "READ_FILES",
        "WRITE_FILES",
        "MANAGE",
        "ALL_PRIVILEGES",
    },
}
LEVELS = {  # of the permissions API, by kind of object
    "jobs": ("CAN_VIEW", "CAN_MANAGE_RUN", "CAN_MANAGE", "IS_OWNER"),
    "directories": ("CAN_READ", "CAN_RUN", "CAN_EDIT", "CAN_MANAGE"),
    "dashboards": ("CAN_READ", "CAN_RUN", "CAN_EDIT", "CAN_MANAGE"),
}
NOTEBOOK = b"# Databricks notebook source"
NOW = "2026-11-22T12:00:00Z"


class Workspace(Jobs):
    """What is in it; tests fill the public attributes and look at them.

    Attributes:
        user: who calls; `host`: the address at which it is served.
        principals: application ids of service principals; `groups`: names of groups.
        catalogs, schemas, volumes, credentials: full name to its fields.
        grants: full name to principal to privileges.
        scopes: secret scope to keys; `acls`: scope to principal to permission.
        warehouses: ids of SQL warehouses.
        dashboards: id to the draft as the API shows it; `published`: id to what was published of it.
        jobs: id to what the API shows of it.
        runs: the same of runs, and what it does not show: the arguments that the last task was given, what its tasks have
            said until now, its exit code.
        objects: path of a file or folder to its id.
        permissions: `jobs/1001` to the access control list.
        install: puts wheels into an environment and gives its Python; without it they lie over this one's packages.
        asked: every call, `GET /api/...`; `unknown`: those that no route answers.
        broken: route prefixes that answer 403.
    """

    def __init__(self, disk: Path, user: str = "ada@example.com") -> None:
        self.disk, self.user, self.host = disk, user, ""
        self.ids = itertools.count(1001)
        self.lock = threading.RLock()  # the CLI deploys with several calls at a time
        self.principals: set[str] = set()
        self.groups: set[str] = {"users", "admins"}
        self.catalogs: dict[str, dict[str, Any]] = {}
        self.schemas: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.credentials: dict[str, dict[str, Any]] = {}
        self.grants: dict[str, dict[str, set[str]]] = {}
        self.scopes: dict[str, set[str]] = {}
        self.acls: dict[str, dict[str, str]] = {}
        self.warehouses: set[str] = set()
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.published: dict[str, dict[str, Any]] = {}
        self.jobs: dict[int, dict[str, Any]] = {}
        self.runs: dict[int, dict[str, Any]] = {}
        self.tasks: dict[int, dict[str, Any]] = {}
        self.objects: dict[str, int] = {}
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.install: Callable[[tuple[Path, ...]], Path] | None = None
        self.permissions: dict[str, list[Any]] = {}
        self.asked: list[str] = []
        self.unknown: list[str] = []
        self.broken: tuple[str, ...] = ()

    # --- routing

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        self.asked.append(f"{method} {path}")
        if path.startswith(self.broken) and self.broken:
            raise Refused(403, "PERMISSION_DENIED", f"{self.user} may not call {path}")
        for known, pattern, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if known == method and match:
                found: Callable[..., Any] = getattr(self, name)
                return found(query, body, *(unquote(group) for group in match.groups()))
        self.unknown.append(f"{method} {path}")
        raise Refused(404, "ENDPOINT_NOT_FOUND", f"No API found for '{method} {path}'")

    def about(self, _query: Any, _body: Any) -> Any:
        return {"workspace_id": "1", "oidc_endpoint": f"{self.host}/oidc"}

    def measured(self, _query: Any, body: dict[str, Any]) -> Any:
        return {"numProtoSuccess": len(body.get("protoLogs", [])), "errors": []}

    def me(self, _query: Any, _body: Any) -> Any:
        return {"id": "1", "userName": self.user, "active": True}

    def service_principals(self, query: dict[str, str], _body: Any) -> Any:
        asked = re.fullmatch(r'applicationId eq "(.*)"', query.get("filter", ""))
        found = [one for one in self.principals if asked and one == asked[1]]
        found = found[int(query.get("startIndex", 1)) - 1 :]  # page by page, until one is empty
        return {"Resources": [{"id": "7", "applicationId": one} for one in found], "totalResults": len(found)}

    def list_groups(self, query: dict[str, str], _body: Any) -> Any:
        asked = re.fullmatch(r'displayName eq "(.*)"', query.get("filter", ""))
        found = [one for one in sorted(self.groups) if asked and one == asked[1]]
        found = found[int(query.get("startIndex", 1)) - 1 :]
        return {"Resources": [{"id": "8", "displayName": one} for one in found], "totalResults": len(found)}

    # --- Unity Catalog

    def parent(self, full: str) -> None:
        above = full.rpartition(".")[0]
        if above and above not in (self.schemas if "." in above else self.catalogs):
            raise no_such(f"'{above}'")

    def create(self, _query: Any, body: dict[str, Any], kind: str) -> Any:
        parents = {"catalogs": (), "schemas": ("catalog_name",), "volumes": ("catalog_name", "schema_name")}[kind]
        full = ".".join((*(body[one] for one in parents), body["name"]))
        self.parent(full)
        there: dict[str, dict[str, Any]] = getattr(self, kind)
        if full in there:
            raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"'{full}' already exists")
        demand(kind != "volumes" or body.get("volume_type") in ("MANAGED", "EXTERNAL"), "a volume has a volume_type")
        there[full] = {**body, "full_name": full, "owner": self.user}
        if kind == "volumes":
            (self.disk / "Volumes" / full.replace(".", "/")).mkdir(parents=True)
        return there[full]

    def read(self, _query: Any, _body: Any, kind: str, full: str) -> Any:
        self.parent(full)
        there: dict[str, dict[str, Any]] = getattr(self, kind)
        if full not in there:
            raise no_such(f"{kind[:-1]} '{full}'")
        return there[full]

    def alter(self, _query: Any, body: dict[str, Any], kind: str, full: str) -> Any:
        there = self.read(None, None, kind, full)
        demand(set(body) <= {"comment"}, f"of {full} nothing but the comment is changed here: {sorted(body)}")
        there |= body
        return there

    def drop(self, query: dict[str, str], _body: Any, kind: str, full: str) -> Any:
        self.read(None, None, kind, full)
        inside = [name for name in self.volumes if kind == "schemas" and name.startswith(f"{full}.")]
        if inside and query.get("force") != "true":
            raise Refused(400, "INVALID_STATE", f"Cannot drop schema '{full}': it is not empty")
        for name in inside:
            self.drop({}, None, "volumes", name)
        there: dict[str, dict[str, Any]] = getattr(self, kind)
        del there[full]
        self.grants.pop(full, None)
        if kind == "volumes":
            shutil.rmtree(self.disk / "Volumes" / full.replace(".", "/"))
        return {}

    def create_credential(self, _query: Any, body: dict[str, Any]) -> Any:
        known = CredentialInfo.from_dict(json.loads(json.dumps(body))).as_dict()
        demand(known == body, f"unknown fields or values: {difference(body, known)}")
        demand(re.fullmatch(r"[A-Za-z0-9_-]{1,255}", body.get("name", "")), "a credential has a name")
        demand(body.get("purpose") in PURPOSES, "a credential has a purpose")
        demand(sum(one in body for one in IDENTITIES) == 1, "a credential is of one identity of the cloud")
        if body["name"] in self.credentials:
            raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"'{body['name']}' already exists")
        self.credentials[body["name"]] = {**body, "full_name": body["name"], "owner": self.user}
        return self.credentials[body["name"]]

    def read_credential(self, _query: Any, _body: Any, name: str) -> Any:
        found = self.read(None, None, "credentials", name)
        if found["owner"] != self.user and not {self.user, "account users"} & self.grants.get(name, {}).keys():
            raise Refused(403, "PERMISSION_DENIED", f"User does not have any permission on Credential '{name}'.")
        return found

    def grant(self, _query: Any, body: dict[str, Any], kind: str, full: str) -> Any:
        self.read(None, None, f"{kind}s", full)
        for change in body["changes"]:
            fitting = kind != "credential" or set(change.get("add", [])) <= RIGHTS[self.credentials[full]["purpose"]]
            demand(fitting, f"Privilege is not applicable to this entity: {change}")
            who = change["principal"]
            demand("@" in who or who in self.principals or who == "account users", f"no principal {who}")
            added, removed = set(change.get("add", [])), set(change.get("remove", []))
            demand(not added & removed, f"Duplicate privileges to add and delete for principal {who}.")
            held = self.grants.setdefault(full, {}).setdefault(who, set())
            held -= set(held) if "ALL_PRIVILEGES" in removed else removed
            held |= added
        return self.granted(None, None, kind, full)

    def granted(self, _query: Any, _body: Any, kind: str, full: str) -> Any:
        self.read(None, None, f"{kind}s", full)
        held = {who: rights for who, rights in self.grants.get(full, {}).items() if rights}
        return {"privilege_assignments": [{"principal": who, "privileges": sorted(held[who])} for who in sorted(held)]}

    def effective(self, _query: Any, _body: Any, kind: str, full: str) -> Any:
        self.read(None, None, f"{kind}s", full)
        parts = full.split(".")
        held: dict[str, set[str]] = {}
        for end in range(1, len(parts) + 1):  # what is granted above holds below
            for who, rights in self.grants.get(".".join(parts[:end]), {}).items():
                held.setdefault(who, set()).update(rights)
        return {
            "privilege_assignments": [
                {"principal": who, "privileges": [{"privilege": right} for right in sorted(rights)]}
                for who, rights in held.items()
            ]
        }

    # --- secrets, compute

    def list_scopes(self, _query: Any, _body: Any) -> Any:
        return {"scopes": [{"name": name, "backend_type": "DATABRICKS"} for name in self.scopes]}

    def list_secrets(self, query: dict[str, str], _body: Any) -> Any:
        if query["scope"] not in self.scopes:
            raise no_such(f"Scope {query['scope']}")
        return {"secrets": [{"key": key} for key in sorted(self.scopes[query["scope"]])]}

    def list_acls(self, query: dict[str, str], _body: Any) -> Any:
        held = self.acls.get(query["scope"], {})
        return {"items": [{"principal": who, "permission": level} for who, level in held.items()]}

    def create_scope(self, _query: Any, body: dict[str, Any]) -> Any:
        name = body["scope"]
        demand(re.fullmatch(r"[\w.@-]{1,128}", name), f"Scope name {name!r} is not valid")
        if name in self.scopes:
            raise Refused(400, "RESOURCE_ALREADY_EXISTS", f"Scope {name} already exists!")
        self.scopes[name], self.acls[name] = set(), {self.user: "MANAGE"}
        return {}

    def delete_scope(self, _query: Any, body: dict[str, Any]) -> Any:
        self.list_secrets({"scope": body["scope"]}, None)
        del self.scopes[body["scope"]], self.acls[body["scope"]]
        return {}

    def put_acl(self, _query: Any, body: dict[str, Any]) -> Any:
        self.list_secrets({"scope": body["scope"]}, None)
        demand(body["permission"] in ("READ", "WRITE", "MANAGE"), f"no permission {body['permission']}")
        who = body["principal"]
        demand("@" in who or who in self.principals | self.groups, f"no principal {who}")
        self.acls[body["scope"]][who] = body["permission"]
        return {}

    def delete_acl(self, _query: Any, body: dict[str, Any]) -> Any:
        self.list_secrets({"scope": body["scope"]}, None)
        self.acls[body["scope"]].pop(body["principal"], None)
        return {}

    def spark_versions(self, _query: Any, _body: Any) -> Any:
        return {"versions": [{"key": key, "name": key} for key in RUNTIMES]}

    def node_types(self, _query: Any, _body: Any) -> Any:
        fields = {"memory_mb": 1, "num_cores": 4, "description": "", "instance_type_id": "", "category": ""}
        return {"node_types": [{"node_type_id": name, **fields} for name in NODES]}

    def warehouse(self, _query: Any, _body: Any, name: str) -> Any:
        if name not in self.warehouses:
            raise no_such(f"SQL warehouse {name}")
        return {"id": name, "name": name, "state": "STOPPED"}

    # --- dashboards

    def create_dashboard(self, query: dict[str, str], body: dict[str, Any]) -> Any:
        known = Dashboard.from_dict(json.loads(json.dumps(body))).as_dict()
        demand(known == body, f"unknown fields or values: {difference(body, known)}")
        demand(body.get("display_name"), "a dashboard has a name")
        demand(
            "${" not in json.dumps([query, {**body, "serialized_dashboard": ""}]),
            "a reference that nobody has resolved",
        )
        path = f"{body['parent_path']}/{body['display_name']}.lvdash.json"
        if not (self.disk / body["parent_path"].lstrip("/")).is_dir():
            raise no_such(f"Path ({body['parent_path']})")
        if any(one["path"] == path for one in self.dashboards.values()):
            raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"{path} already exists.")
        try:
            board = json.loads(body["serialized_dashboard"])
        except ValueError:
            raise invalid("Failed to parse serialized dashboard") from None
        for dataset in board.get("datasets", []):  # one file serves several catalogs
            dataset |= {key: query[f"dataset_{key}"] for key in ("catalog", "schema") if f"dataset_{key}" in query}
        name = f"{next(self.ids):032x}"
        kept = {
            "dashboard_id": name,
            "path": path,
            "lifecycle_state": "ACTIVE",
            "etag": str(next(self.ids)),
            "create_time": NOW,
            "update_time": NOW,
            "serialized_dashboard": json.dumps(board),
        }
        self.dashboards[name] = body | kept
        return self.dashboards[name]

    def get_dashboard(self, _query: Any, _body: Any, name: str) -> Any:
        if name not in self.dashboards:
            raise no_such(f"Dashboard {name}")
        return self.dashboards[name]

    def update_dashboard(self, query: dict[str, str], body: dict[str, Any], name: str) -> Any:
        there = self.get_dashboard(None, None, name)
        if body.get("etag", there["etag"]) != there["etag"]:
            raise Refused(409, "CONFLICT", f"The dashboard {name} was changed by somebody else.")
        demand(body.get("parent_path", there["parent_path"]) == there["parent_path"], "a dashboard stays in its folder")
        del self.dashboards[name]
        try:
            made = self.create_dashboard(query, {key: value for key, value in body.items() if key != "etag"})
        except Refused:
            self.dashboards[name] = there
            raise
        del self.dashboards[made["dashboard_id"]]
        self.dashboards[name] = there | made | {"dashboard_id": name}
        return self.dashboards[name]

    def trash_dashboard(self, _query: Any, _body: Any, name: str) -> Any:
        self.get_dashboard(None, None, name)
        del self.dashboards[name]
        self.published.pop(name, None)
        return {}

    def publish_dashboard(self, _query: Any, body: dict[str, Any], name: str) -> Any:
        draft = self.get_dashboard(None, None, name)
        warehouse = body.get("warehouse_id", draft.get("warehouse_id"))
        demand(warehouse in self.warehouses, f"there is no SQL warehouse {warehouse}")
        told = {"display_name": draft["display_name"], "warehouse_id": warehouse}
        told |= {
            "embed_credentials": body.get("embed_credentials", True),
            "revision_create_time": NOW,
        }
        self.published[name] = told
        return told

    def get_published(self, _query: Any, _body: Any, name: str) -> Any:
        if name not in self.published:
            raise no_such(f"Published dashboard {name}")
        return self.published[name]

    # --- files

    def import_(self, _query: Any, body: dict[str, Any]) -> Any:
        self.put(body["path"], base64.b64decode(body["content"]), overwrite=bool(body.get("overwrite")))
        return {}

    def import_file(self, query: dict[str, str], body: bytes, path: str) -> Any:
        self.put(f"/{path}", body, overwrite=query.get("overwrite") == "true")
        return {}

    def put(self, path: str, data: bytes, *, overwrite: bool) -> None:
        if path.endswith(".py") and data.startswith(NOTEBOOK):
            path = path.removesuffix(".py")
        file = self.place(path)
        demand(not file.is_dir(), f"{path} is a folder")
        if file.exists() and not overwrite:
            raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"{path} already exists.")
        if not file.parent.is_dir():
            raise no_such(f"The parent folder of {path}")
        file.write_bytes(data)

    def mkdirs(self, _query: Any, body: dict[str, Any]) -> Any:
        try:
            self.place(body["path"]).mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise Refused(400, "RESOURCE_ALREADY_EXISTS", f"{body['path']} is a file") from None
        return {}

    def place(self, path: str) -> Path:
        demand(path.startswith("/") and ".." not in path.split("/"), f"Path ({path}) is not absolute")
        return self.disk / path.lstrip("/")

    def get_status(self, query: dict[str, str], _body: Any) -> Any:
        path = query["path"]
        for one in self.dashboards.values():
            if one["path"] == path:
                return {"object_type": "DASHBOARD", "path": path, "resource_id": one["dashboard_id"]}
        file = self.place(path)
        if not file.exists():
            raise no_such(f"Path ({path})")
        number = self.objects.setdefault(path.rstrip("/"), next(self.ids))
        told = {"path": path, "object_id": number, "resource_id": str(number)}
        if file.is_dir():
            return told | {"object_type": "DIRECTORY"}
        told |= {"size": file.stat().st_size, "modified_at": int(file.stat().st_mtime * 1_000)}
        if not file.suffix and file.read_bytes().startswith(NOTEBOOK):
            return told | {"object_type": "NOTEBOOK", "language": "PYTHON"}
        return told | {"object_type": "FILE"}

    def inside(self, folder: str) -> list[str]:
        files = [f"{folder}/{one.name}" for one in sorted(self.place(folder).iterdir())]
        return files + [one["path"] for one in self.dashboards.values() if one["parent_path"] == folder]

    def list_objects(self, query: dict[str, str], _body: Any) -> Any:
        folder = query["path"].rstrip("/")
        there = self.get_status({"path": folder}, None)
        found = self.inside(folder) if there["object_type"] == "DIRECTORY" else [folder]
        return {"objects": [self.get_status({"path": path}, None) for path in found]}

    def export(self, query: dict[str, str], _body: Any) -> Any:
        there = self.get_status(query, None)
        demand(there["object_type"] in ("FILE", "NOTEBOOK"), f"a {there['object_type']} cannot be exported")
        data = self.place(query["path"]).read_bytes()
        return data if query.get("direct_download") == "true" else {"content": base64.b64encode(data).decode()}

    def delete(self, _query: Any, body: dict[str, Any]) -> Any:
        path = body["path"].rstrip("/")
        if self.get_status({"path": path}, None)["object_type"] != "DIRECTORY":
            self.place(path).unlink()
        elif self.inside(path) and not body.get("recursive"):
            raise Refused(400, "DIRECTORY_NOT_EMPTY", f"Folder ({path}) is not empty")
        else:
            for one in [one for one in self.dashboards.values() if one["path"].startswith(f"{path}/")]:
                self.trash_dashboard(None, None, one["dashboard_id"])
            shutil.rmtree(self.place(path))
        self.objects = {
            known: number
            for known, number in self.objects.items()
            if known != path and not known.startswith(f"{path}/")
        }
        return {}

    # --- who may do what with jobs, folders and dashboards

    def guarded(self, kind: str, name: str) -> None:
        demand(kind in LEVELS, f"no such kind of objects: {kind}")
        there: dict[str, list[str]] = {
            "jobs": [str(one) for one in self.jobs],
            "directories": [str(one) for one in self.objects.values()],
            "dashboards": list(self.dashboards),
        }
        if name not in there[kind]:
            raise no_such(f"{kind}/{name}")

    def permit(self, _query: Any, body: dict[str, Any], kind: str, name: str) -> Any:
        self.guarded(kind, name)
        wanted, seen = body["access_control_list"], []
        for one in wanted:
            who = [one[key] for key in ("user_name", "group_name", "service_principal_name") if key in one]
            demand(len(who) == 1 and len(one) == 2, f"one principal and one permission_level: {one}")
            demand(one.get("permission_level") in LEVELS[kind], f"{one.get('permission_level')} is none of {kind}")
            demand("@" in one.get("user_name", "@"), f"no user {who[0]}")
            demand(one.get("group_name", "users") in self.groups, f"no group {who[0]}")
            service = one.get("service_principal_name")
            demand(service is None or service in self.principals, f"no service principal {service}")
            seen += who
        demand(len(seen) == len(set(seen)), f"Permissions being set for {seen} are ambiguous")
        owners = sum(one["permission_level"] == "IS_OWNER" for one in wanted)
        demand(kind != "jobs" or owners == 1, "The job must have exactly one owner.")
        self.permissions[f"{kind}/{name}"] = wanted
        return self.permitted(None, None, kind, name)

    def permitted(self, _query: Any, _body: Any, kind: str, name: str) -> Any:
        self.guarded(kind, name)
        first = [{"user_name": self.user, "permission_level": "IS_OWNER" if kind == "jobs" else "CAN_MANAGE"}]
        held = [
            {key: value for key, value in one.items() if key != "permission_level"}
            | {"all_permissions": [{"permission_level": one["permission_level"], "inherited": False}]}
            for one in self.permissions.get(f"{kind}/{name}", first)
        ]
        above = {"permission_level": "CAN_MANAGE", "inherited": True, "inherited_from_object": [f"/{kind}/"]}
        held.append({"group_name": "admins", "all_permissions": [above]})
        return {"object_id": f"/{kind}/{name}", "access_control_list": held}


_UC = r"/api/2\.1/unity-catalog"
ROUTES = [
    ("GET", r"/\.well-known/databricks-config", "about"),
    ("POST", r"/telemetry-ext", "measured"),
    ("GET", r"/api/2\.0/preview/scim/v2/Me", "me"),
    ("GET", r"/api/2\.0/preview/scim/v2/ServicePrincipals", "service_principals"),
    ("GET", r"/api/2\.0/preview/scim/v2/Groups", "list_groups"),
    ("POST", _UC + r"/(catalogs|schemas|volumes)", "create"),
    ("GET", _UC + r"/(catalogs|schemas|volumes)/([^/]+)", "read"),
    ("PATCH", _UC + r"/(schemas|volumes)/([^/]+)", "alter"),
    ("DELETE", _UC + r"/(schemas|volumes)/([^/]+)", "drop"),
    ("POST", _UC + r"/credentials", "create_credential"),
    ("GET", _UC + r"/credentials/([^/]+)", "read_credential"),
    ("PATCH", _UC + r"/permissions/(catalog|schema|volume|credential)/([^/]+)", "grant"),
    ("GET", _UC + r"/permissions/(catalog|schema|volume|credential)/([^/]+)", "granted"),
    ("GET", _UC + r"/effective-permissions/(catalog|schema|volume|credential)/([^/]+)", "effective"),
    ("GET", r"/api/2\.0/secrets/scopes/list", "list_scopes"),
    ("POST", r"/api/2\.0/secrets/scopes/create", "create_scope"),
    ("POST", r"/api/2\.0/secrets/scopes/delete", "delete_scope"),
    ("POST", r"/api/2\.0/secrets/acls/put", "put_acl"),
    ("POST", r"/api/2\.0/secrets/acls/delete", "delete_acl"),
    ("GET", r"/api/2\.0/secrets/list", "list_secrets"),
    ("GET", r"/api/2\.0/secrets/acls/list", "list_acls"),
    ("GET", r"/api/2\.1/clusters/spark-versions", "spark_versions"),
    ("GET", r"/api/2\.1/clusters/list-node-types", "node_types"),
    ("GET", r"/api/2\.0/sql/warehouses/([^/]+)", "warehouse"),
    ("POST", r"/api/2\.0/lakeview/dashboards", "create_dashboard"),
    ("GET", r"/api/2\.0/lakeview/dashboards/([^/]+)", "get_dashboard"),
    ("PATCH", r"/api/2\.0/lakeview/dashboards/([^/]+)", "update_dashboard"),
    ("DELETE", r"/api/2\.0/lakeview/dashboards/([^/]+)", "trash_dashboard"),
    ("POST", r"/api/2\.0/lakeview/dashboards/([^/]+)/published", "publish_dashboard"),
    ("GET", r"/api/2\.0/lakeview/dashboards/([^/]+)/published", "get_published"),
    ("GET", r"/api/2\.0/workspace/get-status", "get_status"),
    ("GET", r"/api/2\.0/workspace/list", "list_objects"),
    ("GET", r"/api/2\.0/workspace/export", "export"),
    ("POST", r"/api/2\.0/workspace/delete", "delete"),
    ("POST", r"/api/2\.0/workspace/import", "import_"),
    ("POST", r"/api/2\.0/workspace-files/import-file/(.+)", "import_file"),
    ("POST", r"/api/2\.0/workspace/mkdirs", "mkdirs"),
    ("GET", r"/api/2\.0/permissions/([a-z-]+)/([^/]+)", "permitted"),
    ("PUT", r"/api/2\.0/permissions/([a-z-]+)/([^/]+)", "permit"),
    ("POST", r"/api/2\.2/jobs/create", "create_job"),
    ("POST", r"/api/2\.2/jobs/reset", "reset_job"),
    ("POST", r"/api/2\.2/jobs/delete", "delete_job"),
    ("GET", r"/api/2\.2/jobs/get", "get_job"),
    ("GET", r"/api/2\.2/jobs/list", "list_jobs"),
    ("POST", r"/api/2\.2/jobs/run-now", "run_now"),
    ("POST", r"/api/2\.2/jobs/runs/cancel", "cancel_run"),
    ("GET", r"/api/2\.2/jobs/runs/get", "get_run"),
    ("GET", r"/api/2\.2/jobs/runs/get-output", "get_output"),
    ("GET", r"/api/2\.2/jobs/runs/list", "list_runs"),
]


@contextmanager
def serving(workspace: Workspace) -> Iterator[str]:
    """The workspace's address while it answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def one(self) -> None:
            place = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(place.query).items()}
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                open_to_all = place.path == "/.well-known/databricks-config"
                if not open_to_all and self.headers.get("Authorization") != "Bearer token-of-the-fake":
                    raise Refused(401, "UNAUTHENTICATED", "Credential was not sent or was of an unsupported type")
                body = raw if "/import-file/" in place.path else json.loads(raw or b"{}")
                with workspace.lock:
                    status, told = 200, workspace.answer(self.command, place.path, query, body)
            except Refused as refused:
                status, told = refused.status, {"error_code": refused.code, "message": str(refused)}
            except Exception as error:  # noqa: BLE001 - a fault of the fake is told as one, and not retried
                status, told = 400, {"error_code": "FAULT_OF_THE_FAKE", "message": repr(error)}
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if data is not told else "application/octet-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = one  # noqa: N815 - http.server looks for these names

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    workspace.host = f"http://127.0.0.1:{server.server_port}"
    try:
        yield workspace.host
    finally:
        server.shutdown()
        workspace.close()
        server.server_close()
