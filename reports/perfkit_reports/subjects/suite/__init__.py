"""A suite of runs: variants compared with a baseline."""
