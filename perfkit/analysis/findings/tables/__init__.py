"""The rules by subject: each table has what a rule reads, the ids that it reports, and what docs say of each."""
