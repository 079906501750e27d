"""From the bytes of a file to columns: decompressed in blocks, cut at events, decoded, repaired where needed."""
