"""Formats of a report: a plain function from a `Document` each, which knows no subject."""
