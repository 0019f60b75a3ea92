"""Faults of the Python DSL as a file's author reads them: `within: 5 minutes` for `within="5 minutes"`.

A file is declared with the same builder as a Python topology, so what is wrong with it is said there, once. Here it gets
the line of the key that it is about, and options are named as they are typed into a file.
"""

from __future__ import annotations

from lakestreams.config.load import Document, KeyPath
from lakestreams.errors import LakestreamsError


def placed(fault: LakestreamsError, document: Document, path: KeyPath) -> LakestreamsError:
    """The fault in the words of the file, at the line of the option that it is about.

    Args:
        fault: what the builder, or a handle of it, has to say.
        path: to the source, step or output that the fault is about.
    """
    below = (key for key in document.lines if key[: len(path)] == path and len(key) > len(path))
    about = [key for key in below if key[-1] == fault.option]
    fault.speak_yaml()
    fault.where = document.where(min(about, key=len, default=path))
    return fault
