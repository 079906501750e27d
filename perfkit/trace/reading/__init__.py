"""Turns the bytes of a file into columns: decompresses blocks, splits events, decodes, repairs."""
