"""Reports on checks: regressions against thresholds, and their causes."""
