"""What is shown is neither obeyed nor hidden, wherever it is shown and whoever writes it."""

from __future__ import annotations

import ast
import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text
from rich.tree import Tree

import lakestreams
from lakestreams.cli import quarantine, why
from lakestreams.cli.screen import Screen, table
from lakestreams.errors import LakestreamsError, TopologyInvalid
from lakestreams.run.failure import Secrets
from lakestreams.testing.difference import difference
from lakestreams.verify.trace import Trace
from lakestreams.visible import visible, visible_json, visible_lines

SOURCE = Path(lakestreams.__file__).parent
# Formats that are seen, and those that scripts and emoji are written with.
SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, 0x200C, 0x200D}
ATTACKS = [
    "\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\\\click", "\x9b31m", "\x90q", "a\rb", "a\x08b", "a\0b", "\x7f", "\u202e321",
    "\u2066a\u2069", "\u200e\u200f\u061c", "a\u2028b", "a\u2029b", "a\x85b", "a\u200bb", "\ufeffa", "\U000e0041", "a\x0bb\x0c", "\x1c\x1d",
]  # fmt: skip
ALL = "".join(ATTACKS)


def test_every_character_that_is_obeyed_or_hidden_is_written_out() -> None:
    wrong = []
    for point in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(point))
        hidden = category in ("Cc", "Cf", "Zl", "Zp", "Cs") and point not in SEEN
        # a point without a character may be one in a later version of Unicode
        if hidden == (visible(chr(point)) == chr(point)) and category not in ("Cn", "Mn"):
            wrong.append(hex(point))
    assert wrong == []


@given(st.text())
@example(ALL)
def test_what_is_written_out_is_seen_and_stays(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert shown.isprintable() or any(unicodedata.category(sign) in ("Cn", "Co", "Cf", "Zs") for sign in shown)
    assert visible_lines(text).count("\n") == text.count("\n")


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
@example({ALL: [ALL, "\ud800"]})
def test_json_says_the_same_without_them(value: object) -> None:
    for indent in (None, 2):
        written = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert visible_lines(written) == written
        assert json.loads(written) == value
        written.encode("utf-8")


def is_clean(text: str) -> bool:
    return visible_lines(text) == text


@pytest.mark.parametrize("attack", [*ATTACKS, ALL], ids=ascii)
def test_no_way_to_the_screen_lets_them_through(attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    for screen in (Screen(), Screen(as_json=True)):
        screen.say(f"value {attack} end")
        screen.say(Text.assemble((attack, "bold red"), attack))
        screen.show(table("a", attack, title=attack, rows=[(attack, Text(attack)), (1, None)]))
        tree = Tree(attack)
        tree.add(attack)
        screen.show(tree)
        screen.console.print(attack, markup=False)
        screen.errors.print(attack)
        with screen.working(attack):
            pass
        screen.fail(LakestreamsError(f"message {attack}", hint=attack, where=attack))
        screen.fail(TopologyInvalid([LakestreamsError(attack), LakestreamsError(attack)], attack))
        screen.result({attack: [attack]})
    told = capsys.readouterr()
    assert is_clean(told.out)
    assert is_clean(told.err)
    assert "end" in told.out


def test_a_terminal_gets_colours_and_moves_but_none_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = Screen()
    told = io.StringIO()
    monkeypatch.setattr(screen.console, "_force_terminal", True)
    screen.console.file = told
    monkeypatch.setattr(screen.console, "_color_system", screen.console._detect_color_system())
    screen.say(Text(f"value {ALL}", style="bold red"))
    (line,) = told.getvalue().splitlines()
    assert line.startswith("\x1b[")
    body = line.partition("m")[2].rpartition("\x1b")[0]
    assert is_clean(body)
    assert "\\x1b[2J" in body


def test_a_record_cannot_begin_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A value with a line's end could else show what no command has said."""
    forged = "x\n1 passed\r\nequal"
    trace = Trace("t", 0, 1, 0, 1, forged, forged, 5, 1, [f"gave {forged}"], [{"output": "o", "page": forged}])
    why.show(Screen(), [trace])
    names = ("topic", "partition", "offset", "attempt", "state", "reason", "node", "code", "message", "rules", "cycle",
             "request", "ingest_time_ms", "event_time_ms", "stream_time_ms", "timestamp_ms", "headers", "key", "value", "row")  # fmt: skip
    row = dict.fromkeys(names) | {"topic": "t", "reason": forged, "key": forged.encode(), "value": forged.encode(), "row": forged,
                                  "message": forged, "headers": [{"key": forged, "value": forged.encode()}]}  # fmt: skip
    quarantine._show_whole(Screen(), row)
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith(("1 passed", "equal"))]
    assert is_clean("\n".join(lines))


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_errors_and_differences_are_clean_without_a_screen(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a traceback, a log or pytest shows them."""
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path))
    error = LakestreamsError(attack, hint=attack, where=attack)
    assert is_clean(str(error))
    assert is_clean(str(TopologyInvalid([error, error], attack)))
    assert is_clean(difference(("key", attack), [(attack, {attack: 1})], [("b", {attack: attack})]) or "")
    assert is_clean(Secrets().write_log(ValueError(attack)).read_text(encoding="utf-8"))


# What writes past the screen, each with its text made visible or the project's own.
WRITERS = {
    "cli/plain.py",
    "cli/screen.py",
    "cli/start.py",
    "cli/version.py",
    "run/arguments.py",
    "run/entry.py",
    "local/cds.py",
    "local/jars.py",
}


def test_commands_write_through_the_screen() -> None:
    """So a new one cannot forget it."""
    writers, consoles = set(), set()
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in ("print", "typer.echo", "typer.secho", "rich.print") or called.startswith(
                ("sys.stdout.write", "sys.stderr.write")
            ):
                writers.add(name)
            if called.rpartition(".")[2] == "Console":
                consoles.add(name)
    assert writers == WRITERS
    assert consoles == set(), "they are VisibleConsole"
