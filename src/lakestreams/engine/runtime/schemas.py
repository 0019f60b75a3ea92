"""What a lake may be called: the folder, the catalog, and the schemas, by default and by other names from one option.

Pipelines, jobs and commands speak of three rooms, `bronze`, `silver` and `control`. A deployment may call their schemas
otherwise: `bronze=raw,control=_streams`, the text of `--schemas` and of a job's parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakestreams.errors import InvalidName, InvalidOption

BRONZE: Final = "bronze"
SILVER: Final = "silver"
CONTROL: Final = "_lakestreams"

_ROOMS: Final = {"bronze": BRONZE, "silver": SILVER, "control": CONTROL}
# They stand in statements and in paths, and Unity Catalog takes 255 characters.
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")

_URL: Final = re.compile(r"(?i)[a-z][a-z0-9+.-]+:/")
_CATALOG: Final = re.compile(r"""[^./\s`"'\x00-\x1f\x7f-\x9f]{1,255}""")


def parse(text: str | None) -> dict[str, str]:
    """What `--schemas` says, as arguments of `Lake`: `bronze=raw` is `{"bronze_schema": "raw"}`.

    Raises:
        InvalidOption: for a room that there is none of or that stands twice, and for two rooms in one schema.
        InvalidName: for a name that is no plain identifier.
    """
    names: dict[str, str] = {}
    for part in text.split(",") if text else ():
        room, _, name = (one.strip() for one in part.partition("="))
        if room not in _ROOMS or room in names:
            msg = f"--schemas: {part.strip()!r}" + (
                " names a schema of this kind a second time" if room in names else ""
            )
            raise InvalidOption(msg, hint="bronze=NAME,silver=NAME,control=NAME, or some of them")
        names[room] = name
    require_usable(_ROOMS | names)
    return {f"{room}_schema": name for room, name in names.items()}


def require_catalog(name: str) -> None:
    """Refuses what Unity Catalog takes for no catalog's name.

    Raises:
        InvalidName: then.
    """
    if not _CATALOG.fullmatch(name):
        msg = f"the catalog is {name!r}"
        raise InvalidName(msg, hint="no period, space, slash, quote or control character, 255 at most")


def require_folder(root: str) -> None:
    """Refuses an address of cloud storage: Python takes it for a folder below its working directory.

    On a cluster that is the driver's own disk, which ends with it.

    Raises:
        InvalidOption: then.
    """
    if _URL.match(str(root).strip()):
        msg = f"the folder {root!r} is an address, and no path of this machine"
        raise InvalidOption(msg, hint="a volume, /Volumes/<catalog>/<schema>/<volume>; of dbfs:/x it is /dbfs/x")


def require_usable(names: Mapping[str, str]) -> None:
    """Refuses names of schemas that are no plain identifiers, and two rooms in one schema.

    Args:
        names: room to schema.

    Raises:
        InvalidName, InvalidOption
    """
    taken: dict[str, str] = {}
    for room, name in names.items():
        if not _PLAIN.fullmatch(name):
            msg = f"the schema of {room} is {name!r}"
            raise InvalidName(msg, hint="letters, digits and _, not starting with a digit, 255 at most")
        other = taken.setdefault(name.lower(), room)  # catalogs do not tell capitals apart
        if other != room:
            msg = f"{other} and {room} would both use the schema {name}"
            raise InvalidOption(msg, hint="give each its own schema: their tables' names could clash")
