"""What pipelines, tables and topics may be called."""

from __future__ import annotations

import re
from typing import Final

PIPELINE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127}){0,2}\Z")
TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
# What a table's path has and its name has not: a slash. Quotes would end the name inside a statement.
PATH: Final = re.compile(r"[^`\"'\x00-\x1f\x7f]*/[^`\"'\x00-\x1f\x7f]*\Z")
TOPIC_HINT: Final = "Kafka allows letters, digits, dot, _ and -, up to 249 of them"
