"""Suites from Python: measures, resumes, analyzes."""
