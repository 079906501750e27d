"""Did this change make it worse? Thresholds, statistics and verdicts: data in, data out."""
