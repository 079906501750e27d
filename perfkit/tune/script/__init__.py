"""Script mode of a search: edits of a training script, each measured by turns with the original."""
