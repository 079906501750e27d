"""The search: ranks candidates, measures them in stages, judges the trials."""
