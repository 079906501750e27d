"""A quantity over many revisions: where it changed."""
