"""One value of a declared type from its text: the exact value, or null where the text does not say one.

All of it is SQL text over a column that holds text, without a backslash, since whether Spark's parser reads those as
escapes is a setting of the session. docs/formats.md has the rules in words.
"""

from __future__ import annotations

from typing import Final

from lakestreams.formats.kinds import BASE64, Leaf

_END: Final = "(?!.)"  # `$` would let a newline pass
# from_json writes fractions anew by way of a double: of more than 15 digits it may have lost some
_EXPONENT: Final = f"(?s)^(?=-?[0-9.]{{1,16}}[eE])-?(0|[1-9][0-9]*)([.][0-9]+)?[eE][-+]?[0-9]{{1,4}}{_END}"
_DAY: Final = "(?s)^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
_ZONE: Final = "(Z|[-+][0-9]{2}(:?[0-9]{2})?)"
# of whole groups of four, which is looked at beside; the last letter has no bits that are not read
_BASE64: Final = f"(?s)^[A-Za-z0-9+/]*+={{0,2}}{_END}(?<![^AQgw]==)(?<![^=AEIMQUYcgkosw048]=)"
_REST: Final = {"date": "", "timestamp": _CLOCK + _ZONE, "timestamp_ntz": _CLOCK}
_YEARS: Final = {
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}
_MICROS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # the first and the last moment of years 1 to 9999
# of the microseconds of a moment: one second is 10^6 of them
_POWERS: Final = {"timestamp_s": 6, "timestamp_ms": 3, "timestamp_us": 0}


def value_of(leaf: Leaf, text: str) -> str:
    """SQL of the value that a text says; null where it says none of this type.

    Args:
        leaf: `date`, `timestamp`, `timestamp_ntz` or a decimal, also in Base64.
        text: SQL of the text, repeated in the result: a name.
    """
    if leaf.declared.startswith(BASE64):
        return _from_base64(text, leaf.spark)
    if leaf.declared.startswith("decimal"):
        return _decimal(text, leaf.spark)
    kind = leaf.declared
    # Spark reads a zone behind seconds only
    full = f"concat(left({text}, 16), IF(substr({text}, 17, 1) = ':', '', ':00'), substr({text}, 17))"
    read = text if kind == "date" else full
    return _where(text, _DAY + _REST[kind] + _END, _in_years(f"try_cast({read} AS {kind})", kind))


def of_number(kind: str, number: str) -> str:
    """SQL of a time that is a whole number of its unit: `timestamp_s`, `timestamp_ms`, `timestamp_us` or `date_days`."""
    low, high = _MICROS
    if kind == "date_days":
        day = 86_400_000_000
        bounded = f"CASE WHEN {number} BETWEEN {low // day} AND {high // day} THEN {number} END"
        return f"date_from_unix_date(CAST({bounded} AS INT))"
    size = 10 ** _POWERS[kind]
    return f"timestamp_micros(CASE WHEN {number} BETWEEN {low // size} AND {high // size} THEN {number} END * {size}L)"


def described(leaf: Leaf) -> str:
    """The type in a message: what a value is not."""
    examples = {
        "timestamp": "timestamp with a zone, such as 2024-03-01T12:00:00Z (for numbers: timestamp_s, timestamp_ms, timestamp_us)",
        "timestamp_ntz": "timestamp_ntz, such as 2024-03-01T12:00:00",
        "date": "date, such as 2024-03-01 (for numbers: date_days)",
    }
    return examples.get(leaf.declared, leaf.declared)


def _where(text: str, pattern: str, value: str) -> str:
    return f"CASE WHEN {text} RLIKE '{pattern}' THEN {value} END"


def _decimal(text: str, kind: str) -> str:
    """The number, if its digits fit: zeros may stand behind them, nothing is rounded."""
    precision, scale = sizes(kind)
    whole = precision - scale
    before = f"(0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    plain = f"(?s)^-?{before}([.](?=[0-9])[0-9]{{0,{scale}}}0*)?{_END}"
    exact = f"try_cast({text} AS {kind})"
    return (
        f"CASE WHEN {text} RLIKE '{plain}' THEN {exact} WHEN {text} RLIKE '{_EXPONENT}' THEN {_scaled(text, kind)} END"
    )


def _scaled(text: str, kind: str) -> str:
    """A number with an exponent: all of its digits, and where the point stands among them, are looked at as text."""
    precision, scale = sizes(kind)
    parts = f"split(lower({text}), 'e')"
    digits = "replace(replace(p[0], '-', ''), '.', '')"
    behind = "IF(contains(p[0], '.'), length(p[0]) - instr(p[0], '.'), 0) - CAST(p[1] AS INT)"
    # digits times 10^-behind; without the zeros at their end there are fewer of both
    point = "d.behind - length(d.digits) + length(rtrim('0', d.digits))"
    some = "length(trim('0', d.digits))"
    fits = f"{some} = 0 OR ({point} <= {scale} AND {some} - ({point}) <= {precision - scale})"
    value = f"IF({some} = 0, CAST(0 AS {kind}), try_cast({text} AS {kind}))"
    judged = let("d", f"named_struct('digits', {digits}, 'behind', {behind})", f"CASE WHEN {fits} THEN {value} END")
    return let("p", parts, judged)


def _from_base64(text: str, kind: str) -> str:
    """Up to sixteen bytes, big endian and signed, are the digits of the decimal."""
    precision, scale = sizes(kind)
    signed = f"lpad(hex(unbase64({text})), 32, IF(hex(unbase64({text})) RLIKE '^[89A-F]', 'F', '0'))"
    high = "CAST(conv(left(h, 16), 16, -10) AS DECIMAL(38, 0))"
    low = "CAST(conv(right(h, 16), 16, 10) AS DECIMAL(38, 0))"
    number = f"try_add(try_multiply({high}, CAST('18446744073709551616' AS DECIMAL(38, 0))), {low})"
    written_as = "CAST(abs(n) AS STRING)"
    digits = f"lpad({written_as}, greatest(length({written_as}), {scale + 1}), '0')"  # lpad cuts what is longer
    placed = f"concat(left({digits}, length({digits}) - {scale}), '.', right({digits}, {scale}))" if scale else digits
    written = f"concat(IF(n < 0, '-', ''), {placed})"
    fits = f"CASE WHEN length(CAST(abs(n) AS STRING)) <= {precision} THEN try_cast({written} AS {kind}) END"
    sized = (
        f"CASE WHEN octet_length(unbase64({text})) BETWEEN 1 AND 16 THEN {let('h', signed, let('n', number, fits))} END"
    )
    return _base64(text, sized)


def _base64(text: str, value: str) -> str:
    return f"CASE WHEN length({text}) % 4 = 0 AND {text} RLIKE '{_BASE64}' THEN {value} END"


def _in_years(value: str, kind: str) -> str:
    """The time, if its year is from 1 to 9999: what comes before or after, many a reader of tables cannot hold."""
    compared, (first, last) = (f"unix_micros({value})", _MICROS) if kind == "timestamp" else (value, _YEARS[kind])
    return f"CASE WHEN {compared} BETWEEN {first} AND {last} THEN {value} END"


def sizes(kind: str) -> tuple[int, int]:
    """Precision and scale of `decimal(10, 2)`; Spark's own of `decimal`."""
    inside = kind.partition("(")[2].rstrip(")")
    precision, scale = (*(int(size) for size in inside.split(",")), 0)[:2] if inside else (10, 0)
    return precision, scale


def let(name: str, value: str, body: str) -> str:
    """SQL of `body`, in which `name` is the value, computed once."""
    return f"get(transform(array({value}), {name} -> {body}), 0)"


__all__ = ["described", "of_number", "sizes", "value_of"]
