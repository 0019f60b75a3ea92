"""What every part of the engine uses: tables and their schemas, settings, failpoints, parallel statements."""
