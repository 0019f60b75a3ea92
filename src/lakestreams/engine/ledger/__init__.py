"""Records what drivers decide before they do it: plans, fences, settling."""
