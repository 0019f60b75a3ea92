"""What drivers decide, written down before they do it: plans, fences, settling."""
