"""The executor on the join kernels, each case cut into pieces: what the joins keep of the past must be enough."""

from __future__ import annotations

from tests.conformance.batch import Batch
from tests.conformance.executors import Executor

STEPS = 3


def executor(seed: int) -> Executor:
    """Cuts at random places of this seed."""
    return Batch(STEPS, seed)
