"""Reading files: safely, and words and numbers as they look."""

from __future__ import annotations

import pytest

from lakestreams.config.load import read
from lakestreams.errors import ConfigInvalid, ConfigUnreadable

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"# nothing", "empty"),
        (b"- a\n- b\n", "not a mapping"),
        (b"just text", "not a mapping"),
        (b"a: [1, 2", "not closed"),
        (b"a: b: c", "a colon and a space"),
        (b"a: \x00", "not YAML"),
        (b"a: 1\n---\nb: 2\n", "a second document begins here"),
        (b"a: *b\n", "*b refers to nothing"),
        (b"\xff\xfe\xfa", "not UTF-8"),
        (b"a: " + b"x" * 2_000_000, "larger"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "levels deep"),
        (b"a: " + b"[" * 100 + b"]" * 100, "levels deep"),
        (b"a:\n" + b"".join(b"  " * depth + b"- a:\n" for depth in range(1, 50)), "levels deep"),
        (BOMB.encode(), "too large"),
        (b"a: &a {b: *a}", "too large"),
    ],
)
def test_an_unreadable_file(tmp_path, content, words):
    path = tmp_path / "x.yml"
    path.write_bytes(content)
    with pytest.raises(ConfigUnreadable) as caught:
        read(path)
    assert words in str(caught.value)
    assert "x.yml" in caught.value.where


@pytest.mark.parametrize("sign", ["\x00", "\x07", "\x1b", "\ufffe"])
def test_a_character_that_yaml_refuses_has_its_line(tmp_path, sign):
    path = tmp_path / "x.yml"
    path.write_text(f"a: 1\nb: 'x{sign}'\n", encoding="utf-8")
    with pytest.raises(ConfigUnreadable) as caught:
        read(path)
    assert str(caught.value.where).endswith("x.yml:2")
    assert f"U+{ord(sign):04X}" in caught.value.message


def test_words_and_numbers_are_read_as_they_look(tmp_path):
    path = tmp_path / "x.yml"
    path.write_text(
        "a: off\nb: no\nc: 1:30\nd: 2024-02-29\ne: true\nf: 5\ng: 0.5\nh: ~\ni: 010\nj: 1e3\nk: '5'\nl: null\nm: .5\n"
    )
    assert read(path).data == {
        "a": "off", "b": "no", "c": "1:30", "d": "2024-02-29", "e": True, "f": 5, "g": 0.5, "h": None, "i": 10, "j": 1000.0,
        "k": "5", "l": None, "m": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        "!!int abc",
        "!!int ''",
        "!!int 1.5",
        "!!float x",
        "!!bool yes",
        "!!null nothing",
        "!!int {}",
        "!!map a",
        "!!seq a",
    ],
)
def test_a_tag_that_says_what_the_text_does_not(tmp_path, value):
    path = tmp_path / "x.yml"
    path.write_text(f"a: 1\nb: {value}\nc: 2\n")
    document = read(path)
    assert document.data == {"a": 1, "b": None, "c": 2}
    (fault,) = document.faults
    assert isinstance(fault, ConfigInvalid)
    assert str(fault.where).endswith("x.yml:2")


def test_tags_that_say_what_the_text_says(tmp_path):
    path = tmp_path / "x.yml"
    path.write_text("a: !!int '5'\nb: !!float 1\nc: !!bool true\nd: !!null ''\ne: !!str 5\nf: !!map {g: 1}\n")
    document = read(path)
    assert document.data == {"a": 5, "b": 1.0, "c": True, "d": None, "e": "5", "f": {"g": 1}}
    assert not document.faults


def test_aliases_are_read(tmp_path):
    path = tmp_path / "x.yml"
    path.write_text("a: &k {text: user}\nb: *k\n")
    assert read(path).data == {"a": {"text": "user"}, "b": {"text": "user"}}


def test_an_anchor_may_be_set_once_more(tmp_path):
    path = tmp_path / "x.yml"
    path.write_text("a: &k 1\nb: *k\nc: &k 2\nd: *k\n")
    assert read(path).data == {"a": 1, "b": 1, "c": 2, "d": 2}
