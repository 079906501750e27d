"""Records that a worker writes: plain data, written by the measuring side and read by the analyzing side."""
