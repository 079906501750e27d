"""Formats of a report: one plain function from a `Document` each, independent of the subject."""
