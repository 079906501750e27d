"""The rules by subject: their inputs, the ids that they report, and their texts in the docs."""
