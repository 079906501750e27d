"""Renders analyses as HTML, Markdown, terminal text, JSON, Parquet and static figures."""
