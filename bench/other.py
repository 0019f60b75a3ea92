"""The windowed joins of another checkout, in this process and session: its modules stand aside from ours."""

from __future__ import annotations

import importlib
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.operators.windows import Windowed


class Other:
    """Another checkout's operators.

    Args:
        root: its folder, whose name it has: `git archive <commit> | tar -x -C <folder>`.
    """

    def __init__(self, root: Path) -> None:
        self.name = root.resolve().name
        ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "lakestreams"}
        sys.path.insert(0, str(root / "src"))
        try:
            self._windows = importlib.import_module("lakestreams.operators.windows")
            self._kernel = importlib.import_module("lakestreams.operators.stream_stream.kernel")
        finally:
            sys.path.pop(0)
            for name in [name for name in sys.modules if name.split(".")[0] == "lakestreams"]:
                del sys.modules[name]
            sys.modules.update(ours)

    def windowed(self, left: DataFrame, right: DataFrame, join: Windowed, since: int, **options: Any) -> DataFrame:
        """The rows of a windowed join."""
        known = {one.name for one in fields(self._windows.Windowed)}
        theirs = self._windows.Windowed(
            **{one.name: getattr(join, one.name) for one in fields(join) if one.name in known}
        )
        found: DataFrame = self._kernel.execute(left, right, theirs, since, **options)
        return found
