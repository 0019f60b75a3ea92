"""SQL expressions of configuration files: parsed, checked against an allow-list, written anew from the checked tree."""
