"""What is in the tables beside what bronze and the ledger give, and the fate of a record: `verify` and `why`."""
