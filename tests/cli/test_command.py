"""A command made of a function: groups of options, `--json`, exit codes; and how long a list of parameters may be."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import lakestreams
from lakestreams.cli.app import app
from lakestreams.cli.command import ELSEWHERE, command
from lakestreams.cli.screen import Screen

SOURCE = Path(lakestreams.__file__).parent
runner = CliRunner()


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(min=1, help="How wide.")]
    height: Annotated[int, typer.Option("--tall", help="How tall.")] = 2

    def __post_init__(self):
        if self.width == self.height:
            raise typer.BadParameter("it is square")


def drawing(draw):
    """A command line of one command that draws as it is told to."""
    app = typer.Typer()

    @app.command()
    @command
    def whole(
        screen: Screen,
        name: Annotated[str, typer.Argument()],
        size: Size,
        deep: Annotated[bool, typer.Option("--deep")] = False,
    ) -> int:
        """Draws."""
        return draw(screen, name, size, deep)

    return app


def shown(screen, name, size, deep):
    screen.result({"name": name, **asdict(size), "deep": deep})
    return 0


def test_the_fields_of_a_dataclass_are_options_and_the_function_gets_the_dataclass():
    app = drawing(shown)
    done = runner.invoke(app, ["box", "--width", "3", "--json"])
    assert json.loads(done.stdout) == {"name": "box", "width": 3, "height": 2, "deep": False}
    done = runner.invoke(app, ["box", "--tall", "5", "--width", "3", "--deep", "--json"])
    assert json.loads(done.stdout) == {"name": "box", "width": 3, "height": 5, "deep": True}


def test_a_field_without_a_default_is_required_and_its_limits_hold():
    app = drawing(shown)
    for words in (["box"], ["box", "--width", "0"], ["box", "--width", "2"]):
        assert runner.invoke(app, words).exit_code == 2


def test_options_stand_where_their_group_stands_and_json_last():
    told = runner.invoke(drawing(shown), ["--help"], env={"COLUMNS": "100"}).output
    places = [told.index(word) for word in ("--width", "--tall", "--deep", "--json")]
    assert places == sorted(places)
    assert "Draws." in told
    assert "screen" not in told.lower()


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_function_returns_the_exit_code(code):
    assert runner.invoke(drawing(lambda *_: code), ["box", "--width", "3"]).exit_code == code


@pytest.mark.parametrize("room", ["cli", "run", "jobs"])
def test_no_function_has_more_than_eight_parameters(room):
    """Options that belong together are a dataclass, also where Typer calls."""
    trees = {file.name: ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.joinpath(room).rglob("*.py")}
    counted = {
        f"{name}: {node.name}": len(node.args.args) + len(node.args.kwonlyargs)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: count for name, count in counted.items() if count > 8} == {}


# --- commands that there are not -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_command_of_another_tool_is_answered_with_what_it_is_here(name: str) -> None:
    told = runner.invoke(app, [name, "-t", "dev"], env={"COLUMNS": "400"})
    assert told.exit_code == 2
    assert ELSEWHERE[name].split(", ")[0] in " ".join(told.output.replace("│", "").split())
    commands = typer.main.get_command(app).commands
    assert name not in commands
    assert {*re.findall(r"lakestreams (\w+)", ELSEWHERE[name])} <= commands.keys()


@pytest.mark.parametrize(
    ("name", "told"), [("chek", "Did you mean 'check'?"), ("validat", "Use: lakestreams check FILE"), ("zzz", "")]
)
def test_an_unknown_command_is_answered_with_the_nearest(name: str, told: str) -> None:
    done = runner.invoke(app, [name], env={"COLUMNS": "400"})
    assert (done.exit_code, f"No such command '{name}'. {told}".rstrip() in done.output) == (2, True), done.output
