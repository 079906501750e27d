"""The rules by subject: what each reads, the ids that it reports, and their texts in the docs."""
