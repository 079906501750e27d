"""Rules, their kinds of findings, and the order of findings in a report."""
