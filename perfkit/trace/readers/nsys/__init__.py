"""Nsight Systems' export to SQLite (`nsys export --type sqlite`)."""
