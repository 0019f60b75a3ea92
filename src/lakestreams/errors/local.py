"""Errors of the parts for one machine, LS6xx: Java, jars, the local broker."""

from __future__ import annotations

from lakestreams.errors.base import LakestreamsError


class JavaMissing(LakestreamsError):
    """Java was not found. Spark and the local broker need a JDK 17 or newer."""

    code = "LS601"
    name = "JAVA_MISSING"
    hint = "install a JDK 17 or newer and set JAVA_HOME or PATH"


class JavaTooOld(LakestreamsError):
    """The installed Java is older than 17."""

    code = "LS602"
    name = "JAVA_TOO_OLD"
    hint = "install a JDK 17 or newer and set JAVA_HOME to it"


class JarsUnresolved(LakestreamsError):
    """The jars of Spark's connectors or of the broker could not be downloaded."""

    code = "LS603"
    name = "JARS_UNRESOLVED"
    hint = "the first download needs the network: check the proxy settings and try again"


class BrokerNotReady(LakestreamsError):
    """The local broker did not start."""

    code = "LS604"
    name = "BROKER_NOT_READY"
    hint = "read the end of the broker's log above and remove the cause"


class PortTaken(LakestreamsError):
    """Another program uses the requested port."""

    code = "LS605"
    name = "PORT_TAKEN"
    hint = "choose another port, or leave the port out to get a free one"


class LocalPartsMissing(LakestreamsError):
    """A local command needs pyspark, delta-spark and confluent-kafka, and one of them is not installed."""

    code = "LS606"
    name = "LOCAL_PARTS_MISSING"
    hint = "pip install 'lakestreams[local]'"
