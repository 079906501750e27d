"""Turns the bytes of a file into columns: decompressed in blocks, cut at events, decoded, repaired where needed."""
