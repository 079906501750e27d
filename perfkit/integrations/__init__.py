"""Integrations with other frameworks and trackers, one file each, imported only when used."""
