"""Memory of a rehearsed step on a GPU."""
