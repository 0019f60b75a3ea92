"""Quarantined records that operators have mended and asked for once more."""
