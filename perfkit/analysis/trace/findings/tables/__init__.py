"""Rules about traces by subject, with the ids that they report."""
