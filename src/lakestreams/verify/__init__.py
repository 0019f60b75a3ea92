"""Proof after the fact: tables compared with what bronze and the ledger give, and the fate of a record."""
