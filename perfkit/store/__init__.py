"""Run directories: their layout, and reading and writing them."""
