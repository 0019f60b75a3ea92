"""What a verification looked at, and how it differs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """What was compared, and how it differs.

    Attributes:
        what: an output, a join, or what was looked at in bronze or in the ledger.
        compared: how many rows.
        differs: how many of them differ; 0: equal.
        examples: some of those that differ, as text.
        left_out: how many rows there are besides these that could not be compared.
    """

    what: str
    compared: int
    differs: int = 0
    examples: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def looked(self) -> bool:
        """Whether anything was compared of what there is."""
        return self.compared > 0 or not self.left_out
