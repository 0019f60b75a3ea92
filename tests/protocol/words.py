"""A command in words, as schedules print it."""

from __future__ import annotations

from typing import Any

from lakestreams.engine.protocol import commands


def said(command: Any) -> str:
    """A command in words."""
    if isinstance(command, commands.Append):
        row = command.row
        what = (
            f"{row[0]} {row[1]}"
            if command.table == "ledger"
            else f"cycle {row[0].cycle}"
            if command.table == "silver"
            else str(row)
        )
        application, version = command.transaction
        shown = f"{version >> 32}|{version % 2**32}" if version >> 32 else version
        return f"append {what} to {command.table} as {application} {shown} under epoch {command.turn.epoch}"
    if isinstance(command, commands.Read):
        return f"read {command.what}"
    if isinstance(command, commands.Raise):
        return f"raise {command.turn.role} to {command.turn.epoch}"
    if isinstance(command, commands.Overwrite):
        return f"overwrite {command.table} as of cycle {command.stored.cycle}"
    if isinstance(command, commands.Evaluate):
        return f"evaluate cycle {command.plan.cycle}"
    if isinstance(command, commands.Begin):
        return f"begin the {command.machine}"
    if isinstance(command, commands.Hand):
        return f"hand batch {command.batch.seq} over"
    return f"{type(command).__name__.lower()} {getattr(command, 'cycle', '')}"
