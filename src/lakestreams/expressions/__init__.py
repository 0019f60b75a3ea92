"""SQL expressions of configuration files: parsed, checked against an allow-list, and printed from the checked tree."""
