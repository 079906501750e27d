"""The command line: parses, calls, prints. Measurement and analysis belong to the library."""
