"""Compares tables with what bronze and the ledger give, and says what became of a record."""
