"""Makes text safe to show: characters that a terminal or browser would obey or hide are printed as their numbers.

Keys, values, names and messages come from records and tables. An escape sequence in one would move the cursor or change what
was printed before; a character that turns the direction of writing would make a text read as another one.
"""

from __future__ import annotations

import math
import re
from typing import Final

# Controls (C0, C1, DEL), formats (directions of writing, zero widths, tags), line and paragraph separators, surrogates: the
# categories Cc, Cf, Zl, Zp and Cs. Formats that are seen stay (Arabic, Syriac and Kaithi signs of numbers), and U+200C and
# U+200D, with which Persian, Hindi and emoji are written.
_HIDDEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, keep: str = "") -> str:
    r"""The text with each character that would be obeyed, or not seen, as its number: `\x1b`, `\u202e`.

    Args:
        text: whatever is shown.
        keep: characters that stay, such as the line ends of a text of several lines.
    """
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else _numbered(match[0]), text)


def visible_lines(text: str) -> str:
    """The same of a text of several lines, whose ends and tabs stay."""
    return visible(text, keep="\n\t")


def visible_json(text: str) -> str:
    """JSON, in which such characters can only stand inside texts, with each of them as JSON's own escape: the same value."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] == "\n" else _of_json(match[0]), text)


def visible_number(value: float) -> float | str:
    """A number, or its name where JSON has no such number: `NaN`, `Infinity`, `-Infinity`."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _numbered(sign: str) -> str:
    point = ord(sign)
    if sign in _SHORT:
        return _SHORT[sign]
    return f"\\x{point:02x}" if point <= 0xFF else f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _of_json(sign: str) -> str:
    raw = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{raw[place : place + 4]}" for place in range(0, len(raw), 4))


__all__ = ["visible", "visible_json", "visible_lines", "visible_number"]
