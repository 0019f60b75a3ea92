"""Errors of configuration files, LS2xx: keys, values, SQL, options and references."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class ConfigUnreadable(LakestreamsError):
    """A configuration file is missing, too large, or not YAML."""

    code = "LS201"
    name = "CONFIG_UNREADABLE"
    hint = "check the path and the YAML at the given line"


class UnknownKey(LakestreamsError):
    """A configuration file has a key that does not exist. The fix names the nearest known key."""

    code = "LS202"
    name = "UNKNOWN_KEY"
    hint = "use the nearest known key, or remove it"


class ConfigInvalid(LakestreamsError):
    """A value in a configuration file has the wrong type, or is not one of the choices."""

    code = "LS203"
    name = "CONFIG_INVALID"
    hint = "see what the key takes: lakestreams explain pipelines"


class ExpressionRefused(LakestreamsError):
    """A SQL expression in a configuration file uses something that is not on the allow-list.

    Expressions are code. Functions that run programs or read files or tables are refused. So are functions that return
    another value each time, and anything but a plain expression over the columns of its step.
    """

    code = "LS204"
    name = "EXPRESSION_REFUSED"
    hint = "use only columns and functions of the allow-list: lakestreams explain expressions"


class KafkaOptionRefused(LakestreamsError):
    """A Kafka client option is not on the allow-list. Some options load code or read files.

    A service credential signs in by itself, so another option that signs in is refused next to it. A service credential
    is also refused outside of Databricks, where it does not exist.
    """

    code = "LS205"
    name = "KAFKA_OPTION_REFUSED"
    hint = "use an option of the allow-list: lakestreams explain kafka-options"


class SecretUnresolved(LakestreamsError):
    """A value refers to an environment variable or a secret that does not exist."""

    code = "LS206"
    name = "SECRET_UNRESOLVED"
    hint = "set the variable, or give it a default: ${NAME:-default}"


class UnknownReference(LakestreamsError):
    """A step or output refers to a source or step that is not declared."""

    code = "LS207"
    name = "UNKNOWN_REFERENCE"
    hint = "refer to a topic of conf/sources.yml or to an earlier step"
