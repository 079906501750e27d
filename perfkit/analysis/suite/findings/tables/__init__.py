"""Rules about suites by subject, with the ids that they report."""
