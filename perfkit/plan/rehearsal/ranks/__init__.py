"""The ranks of a rehearsed step: this process is the first of them, and the others are simulated."""
