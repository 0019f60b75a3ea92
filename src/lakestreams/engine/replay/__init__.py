"""Replays quarantined records that people have requested, corrected or as they were."""
