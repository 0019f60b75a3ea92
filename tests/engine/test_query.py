"""What a failure of the ingest query means: our own errors come out as themselves, although Spark has wrapped them."""

from __future__ import annotations

import traceback

import pytest

from lakestreams.engine.ingest import query
from lakestreams.errors import (
    Fenced,
    IngestFailed,
    LakestreamsError,
    RegistryRefused,
    RegistryUnreachable,
    SchemaMissing,
    SecretUnresolved,
)


def wrapped(error: Exception) -> Exception:
    """The error as Spark tells of it."""
    try:
        raise error
    except type(error):
        told = traceback.format_exc()
    text = (
        "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An "
    )
    text += f"error occurred in the user provided function in foreach batch sink. Reason: {told}"
    return RuntimeError(f"{text}\n\tat py4j.Protocol.getReturnValue(Protocol.java:476)\n")


@pytest.mark.parametrize(
    "error",
    [
        RegistryUnreachable("https://r: GET /schemas/ids/7: [Errno 111] Connection refused (4 tries)"),
        RegistryRefused("https://r answers, but is no schema registry", hint="is the path part of the url?"),
        SchemaMissing("records name schema 7\nand no registry is declared", hint="registry: {url: ...}"),
        SecretUnresolved("registry option bearer.auth.token: the environment variable T is not set"),
    ],
)
def test_what_the_registry_says_is_told_as_it_is(error: LakestreamsError) -> None:
    found = query.failure("orders", wrapped(error), ["Orders"])
    assert (type(found), found.message, found.hint) == (type(error), error.message, error.hint)


def test_other_failures() -> None:
    assert isinstance(query.failure("orders", wrapped(Fenced("newer")), []), Fenced)
    found = query.failure("orders", wrapped(ValueError("LS308 REGISTRY_UNREACHABLE in a value")), [])
    assert isinstance(found, IngestFailed)
    assert "ValueError: LS308" in found.message
    own = IngestFailed("as it is")
    assert query.failure("orders", own, []) is own
