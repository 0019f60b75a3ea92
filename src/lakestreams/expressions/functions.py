# ruff: noqa: SIM905 - long lists of words read better as text
"""The functions that expressions in configuration files may call: the allow-list, as data.

Each is a scalar Spark function whose result depends on its arguments and the session's time zone alone. Left out on
purpose: what runs code (`java_method`, `reflect`), asks for the time, the user, the session or chance (`now`,
`current_*`, `uuid`, `rand`, `aes_encrypt` with its random IV), reads files or other relations (`input_file_name`),
aggregates, windows or generates rows, raises on purpose (`raise_error`, `assert_true`), reads XML (entities), or makes
values of unbounded size (`sequence`). What others may allocate is bounded in `expression_bounds`.
"""

from __future__ import annotations

from typing import Final

GROUPS: Final[dict[str, frozenset[str]]] = {
    "Choice": frozenset(
        "coalesce decode equal_null if ifnull isnotnull isnull nullif nullifzero nvl nvl2 zeroifnull".split()
    ),
    "Text": frozenset(
        """ascii bit_length btrim char char_length character_length chr concat concat_ws contains endswith find_in_set
        format_number format_string initcap instr is_valid_utf8 lcase left len length levenshtein like locate lower
        lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf regexp regexp_count
        regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse
        right rlike rpad rtrim soundex space split split_part startswith substr substring substring_index to_char
        to_number to_varchar translate trim try_to_number try_validate_utf8 ucase upper url_decode url_encode
        try_url_decode parse_url try_parse_url""".split()
    ),
    "Numbers": frozenset(
        """abs acos acosh asin asinh atan atan2 atanh bin bit_count bround cbrt ceil ceiling conv cos cosh cot csc
        degrees e exp expm1 factorial floor greatest hypot isnan least ln log log10 log1p log2 mod nanvl negative pi
        pmod positive pow power radians rint round sec shiftleft shiftright shiftrightunsigned sign signum sin sinh
        sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract width_bucket""".split()
    ),
    "Casts": frozenset(
        """bigint binary boolean date decimal double float int smallint string timestamp tinyint to_binary
        try_to_binary""".split()
    ),
    "Date and time": frozenset(
        """add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
        dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear from_unixtime from_utc_timestamp hour
        last_day make_date make_dt_interval make_interval make_timestamp make_ym_interval minute month monthname
        months_between next_day quarter second timestamp_micros timestamp_millis timestamp_seconds timestampadd
        timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc
        try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear
        year""".split()
    ),
    "Hashes and encodings": frozenset("base64 crc32 encode hash hex md5 sha sha1 sha2 unbase64 unhex xxhash64".split()),
    "Arrays, maps and structs": frozenset(
        """array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
        array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
        array_union arrays_overlap cardinality element_at flatten get map map_concat map_contains_key map_entries
        map_from_arrays map_from_entries map_keys map_values named_struct size slice sort_array str_to_map struct
        try_element_at""".split()
    ),
    "JSON": frozenset("from_json get_json_object json_array_length json_object_keys to_json".split()),
}

FUNCTIONS: Final = frozenset[str]().union(*GROUPS.values())

# With fewer arguments these ask for the current time, zone or another thing that changes.
LEAST_ARGUMENTS: Final = {"convert_timezone": 3, "to_unix_timestamp": 1, "unix_timestamp": 1}

# With three arguments the first one of these is a unit, not a column.
UNIT_FIRST: Final = frozenset({"date_add", "date_diff", "dateadd", "datediff", "timestampadd", "timestampdiff"})
UNITS: Final = frozenset("MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY DAYOFYEAR WEEK MONTH QUARTER YEAR".split())
EXTRACTS: Final = frozenset(
    "YEAR YEAROFWEEK QUARTER MONTH WEEK DAY DAYOFWEEK DAYOFWEEK_ISO DOY HOUR MINUTE SECOND".split()
)
INTERVAL_UNITS: Final = frozenset(
    unit + s for unit in "MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH YEAR".split() for s in ("", "S")
)

# What raises on a value that does not fit, and what gives null in its place; for conditions that only judge.
TOLERANT: Final = {
    "element_at": "try_element_at", "mod": "try_mod", "parse_url": "try_parse_url", "to_binary": "try_to_binary",
    "to_date": "try_to_date", "to_number": "try_to_number", "to_timestamp": "try_to_timestamp",
    "url_decode": "try_url_decode",
}  # fmt: skip
TOLERANT_OPERATORS: Final = {
    "+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod",
}  # fmt: skip
CASTS: Final = frozenset(
    "bigint binary boolean date decimal double float int smallint string timestamp tinyint".split()
)
