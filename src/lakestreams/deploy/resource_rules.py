"""What can be wrong with resources that are no jobs: dashboards, and what holds data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakestreams.deploy import dashboards
from lakestreams.deploy.bodies import dashboard_file
from lakestreams.deploy.read import Bundle
from lakestreams.errors import BundleInvalid

_DASHBOARD_KEYS: Final = frozenset(
    [
        "dataset_catalog",
        "dataset_schema",
        "display_name",
        "embed_credentials",
        "file_path",
        "lifecycle",
        "parent_path",
        "permissions",
        "warehouse_id",
    ]
)
_NAMED_BY: Final = {
    "schemas": ("catalog_name", "name"),
    "secret_scopes": ("name",),
    "volumes": ("catalog_name", "schema_name", "name"),
}


def dashboard_faults(bundle: Bundle, key: str) -> Iterator[BundleInvalid]:
    """What is wrong with a dashboard of the bundle, and with its file."""
    dashboard, where = bundle.dashboards[key], bundle.where(f"dashboards.{key}")
    for name in sorted(dashboard.keys() - _DASHBOARD_KEYS):
        yield BundleInvalid(f"unknown key {name}", f"one of {', '.join(sorted(_DASHBOARD_KEYS))}", where)
    warehouse = dashboard.get("warehouse_id")
    if not warehouse:
        yield BundleInvalid(
            "no warehouse_id: nothing would run its queries", "warehouse_id: ${var.warehouse_id}", where
        )
    elif not isinstance(warehouse, str):
        yield BundleInvalid(f"the warehouse_id is {warehouse!r} and no text", f'quote it: "{warehouse}"', where)
    if dashboard.get("embed_credentials") and bundle.config.get("run_as"):
        yield BundleInvalid(
            "embed_credentials would show everybody what its deployer may see, and run_as does not reach dashboards",
            "embed_credentials: false",
            where,
        )
    file = dashboard_file(bundle, key)
    if not file.is_file():
        reference = dashboard.get("file_path")
        told = f"there is no dashboard {reference}" if reference else "no file_path"
        yield BundleInvalid(told, "the path of a .lvdash.json, relative to the file that names it", where)
        return
    for what in dashboards.mistakes(file.read_text(encoding="utf-8")):
        yield BundleInvalid(f"{file.name}: {what}", "correct the file, or export the dashboard again", where)


def storage_faults(bundle: Bundle) -> Iterator[BundleInvalid]:
    """Schemas, volumes and scopes whose names are not whole."""
    for kind, fields in _NAMED_BY.items():
        for key, item in bundle.resources.get(kind, {}).items():
            where = bundle.where(f"{kind}.{key}")
            for name in (name for name in fields if not isinstance(item.get(name), str)):
                wrong = f"is {item[name]!r} and no text" if name in item else "is not given"
                yield BundleInvalid(f"{name} {wrong}", "a text, in quotes if need be", where)
