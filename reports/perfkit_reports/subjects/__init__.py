"""Subjects of reports: one plain function per kind of result, from an analysis to a `Document`."""
