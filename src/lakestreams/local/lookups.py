"""What a local session looks up again and again, looked up once.

Both were found in recordings of the JVM while it planned small statements (docs/benchmarks.md): pyspark asks the JVM for a class
by its short name at every column, and py4j then looks for it in each imported package in every jar; and Spark goes through
the stack for a caller's line at every step of a plan, for pages of its UI, which is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Class(JavaClass):  # type: ignore[misc]
    """A class that asks for each of its static methods once; fields are asked for each time."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


class _View(JVMView):  # type: ignore[misc]
    """The JVM's names, of which each class is asked for once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found.__class__ = _Class
            self.__dict__[name] = found
        return found


def remember(session: SparkSession) -> None:
    """Lets a classic session's process keep what it has looked up; nothing else of the session is changed.

    Args:
        session: of this process. One with a UI keeps its call sites.
    """
    from pyspark.traceback_utils import SCCallSiteSync  # noqa: PLC0415  # next to its use

    context = session.sparkContext
    context._jvm.__class__ = _View
    if context.uiWebUrl is None:
        # pyspark sets its own around each `collect` and takes it away afterwards, unless one is set further out
        SCCallSiteSync._spark_stack_depth = max(1, SCCallSiteSync._spark_stack_depth)
        for form in ("short", "long"):
            context.setLocalProperty(f"callSite.{form}", "lakestreams")


__all__ = ["remember"]
