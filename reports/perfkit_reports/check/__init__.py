"""Renderers of a check: terminal text, Markdown for a comment, JUnit XML, annotations, JSON, an HTML report."""
