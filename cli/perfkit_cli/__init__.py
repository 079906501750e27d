"""The command line: parse, call, print. Nothing is measured or worked out here."""
