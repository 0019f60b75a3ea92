"""The entry of a login module (`sasl.jaas.config`): how Kafka's clients read it, and what may be set in it.

Entries hold options of their own, which Kafka takes for the connection to a token endpoint; they are an allow-list as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lakestreams.errors import KafkaOptionRefused
from lakestreams.kafka.allowed_options import LOGIN_MODULES, OPTIONS, SECRET, AllowedOption, one_of
from lakestreams.kafka.references import REFERENCE

# Kafka's clients read an entry by Java's StreamTokenizer: a line's end ends a quoted value, // and /* begin comments, and
# only ASCII white space parts words. What is let through here is what both read in one way.
_QUOTED = r"\"(?:[^\"\\\x00-\x1f\x7f]|\\[\\\"'nrt])*\"|'(?:[^'\\\x00-\x1f\x7f]|\\[\\\"'nrt])*'"
_VALUE = rf"{_QUOTED}|[A-Za-z_][A-Za-z0-9_$.-]*"


def _patterns(value: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a whole entry and of one option in it, for values of this pattern."""
    option = rf"[ \t\r\n]+({{name}}[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*({{value}}{value})"
    entry = (
        r"[ \t\r\n]*(?P<module>[A-Za-z_][A-Za-z0-9_.$]*)[ \t\r\n]+(?:required|requisite|sufficient|optional)"
        rf"(?P<options>(?:{option.replace('{name}', '?:').replace('{value}', '?:')})*)[ \t\r\n]*;[ \t\r\n]*\Z"
    )
    return re.compile(entry), re.compile(option.replace("{name}", "?P<name>").replace("{value}", "?P<value>"))


_ENTRY, _OPTION = _patterns(_VALUE)
# as the user writes it a value may be a reference without quotes
_AS_WRITTEN, _OPTION_AS_WRITTEN = _patterns(rf"{_VALUE}|(?:{re.sub(r'[?]P<[a-z]+>', '?:', REFERENCE.pattern)})")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_WRITTEN: Final = {"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SECRET = re.compile(r"(?i)password|secret|token|assertion|private|jwt")


@dataclass(frozen=True)
class _Options:
    """What may be set inside the entry of a login module: each name with what its value looks like."""

    allowed: Mapping[str, AllowedOption]
    extensions: bool = False  # SASL extensions, extension_<name>, which go to the broker as they are

    def of(self, name: str) -> AllowedOption | None:
        """What a name takes; None: it is not allowed."""
        if self.extensions and _EXTENSION.match(name):
            return _PLAIN
        return self.allowed.get(name)


_EXTENSION = re.compile(r"extension_[A-Za-z]{1,64}\Z")
_PLAIN: Final = AllowedOption("text", re.compile(r"[^\x00-\x1f\x7f]*\Z"))
# Of the connection to the token endpoint; the names that do not name classes, files of providers or algorithms to trust.
_TLS_NAMES: Final = (
    "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.truststore.location",
    "ssl.truststore.password", "ssl.truststore.type",
)  # fmt: skip
_OF_MODULE: Final[Mapping[str, _Options]] = MappingProxyType(
    {
        "PlainLoginModule": _Options({"username": _PLAIN, "password": SECRET}),
        "ScramLoginModule": _Options(
            {
                "username": _PLAIN,
                "password": SECRET,
                "tokenauth": AllowedOption("true or false", one_of(("true", "false"))),
            }
        ),
        "OAuthBearerLoginModule": _Options(
            {
                "clientId": _PLAIN,
                "clientSecret": SECRET,
                "scope": _PLAIN,
                **{name: OPTIONS[name] for name in _TLS_NAMES},
            },
            extensions=True,
        ),
    }
)


def names_of(module: str) -> tuple[str, ...]:
    """The names of the options that an entry of a login module may set."""
    known = _OF_MODULE[module.rpartition(".")[2]]
    return (*sorted(known.allowed), *(("extension_<name>",) if known.extensions else ()))


def fault(text: str, *, written: bool = False) -> str | None:
    """What is wrong with a JAAS entry, never quoting its values.

    Args:
        text: the entry.
        written: whether it is as the user wrote it, so that secrets must be references.
    """
    entry = _AS_WRITTEN if written else _ENTRY
    match = entry.match(text)
    if match is None:
        return (
            'it is not one login module with its options, such as: ...ScramLoginModule required username="u" password="..."; '
            "(quote values that have other characters than letters, digits, _ . and -)"
        )
    module = match["module"]
    if module not in LOGIN_MODULES:
        return f"the login module {module!r} is not allowed"
    options = [*options_in(match["options"], written=written)]
    names = [name for name, _ in options]
    for name, value in options:
        wrong = _option_fault(module, name, value, written=written)
        if wrong is not None:
            return wrong
        if names.count(name) > 1:
            return f"{name} appears twice in the entry of {module}"
    return None


def _option_fault(module: str, name: str, value: str, *, written: bool) -> str | None:
    allowed = _OF_MODULE[module.rpartition(".")[2]].of(name)
    if allowed is None:
        return f"the option {name!r} of {module} is not allowed; it takes {', '.join(names_of(module))}"
    if written and allowed.secret and not REFERENCE.fullmatch(value):
        return f"{name} is a secret in plain text"
    resolved = not written or not REFERENCE.search(value)
    if resolved and not allowed.pattern.match(value):
        return f"the option {name} of {module} takes {allowed.what}"
    return None


def options_in(text: str, *, written: bool = False) -> Iterator[tuple[str, str]]:
    """The options of a JAAS entry, as Kafka's clients get them."""
    for match in (_OPTION_AS_WRITTEN if written else _OPTION).finditer(text):
        value = match["value"]
        if value[:1] in ("'", '"'):
            value = re.sub(r"\\(.)", lambda sign: _ESCAPED.get(sign[1], sign[1]), value[1:-1])
        yield match["name"], value


def parsed(text: str) -> tuple[str, dict[str, str]]:
    """The login module of an entry that was let through, and the options in it as Kafka's clients get them."""
    match = _ENTRY.match(text)
    if match is None:
        raise KafkaOptionRefused(f"the option sasl.jaas.config is refused: {fault(text)}")
    return match["module"], dict(options_in(match["options"]))


def secrets_in(text: str) -> Iterator[str]:
    """The values in an entry whose names say that they are secrets."""
    return (value for name, value in options_in(" " + text) if _SECRET.search(name))


def escaped(value: str) -> str:
    """A value as it is written inside quotes, so that it cannot end them."""
    return "".join(_WRITTEN.get(sign, sign) for sign in value)
