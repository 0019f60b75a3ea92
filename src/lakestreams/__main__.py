"""Lets `python -m lakestreams` stand for the `lakestreams` command, also from an uninstalled tree."""

from lakestreams.cli.start import main

if __name__ == "__main__":
    main()
