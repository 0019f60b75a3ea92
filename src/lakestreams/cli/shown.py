"""What the commands draw with that are jobs, too: rich where it is installed, else plain lines."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from lakestreams.cli.screen import Screen, table
else:
    try:
        from rich.text import Text

        from lakestreams.cli.screen import Screen, table
    except ModuleNotFoundError:
        from lakestreams.cli.plain import Screen, Text, table

__all__ = ["Screen", "Text", "table"]
