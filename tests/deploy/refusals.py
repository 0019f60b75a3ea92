"""How a workspace refuses."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def no_such(what: str) -> Refused:
    return Refused(404, "RESOURCE_DOES_NOT_EXIST", f"{what} does not exist.")


def invalid(message: str) -> Refused:
    return Refused(400, "INVALID_PARAMETER_VALUE", message)


def demand(condition: object, message: str) -> None:
    if not condition:
        raise invalid(message)


def difference(sent: Any, known: Any, where: str = "") -> str:
    """Where what was sent is not what the API knows of it."""
    if isinstance(sent, dict) and isinstance(known, dict):
        parts = [difference(sent[key], known.get(key), f"{where}.{key}") for key in sent if sent[key] != known.get(key)]
        return ", ".join(parts) or where
    if isinstance(sent, list) and isinstance(known, list) and len(sent) == len(known):
        return ", ".join(difference(a, b, f"{where}[]") for a, b in zip(sent, known, strict=True) if a != b)
    return f"{where} = {sent!r}"
