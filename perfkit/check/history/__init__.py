"""History of quantities over many revisions, and their changes."""
