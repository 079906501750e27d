"""Compares two sides: traces op by op, environments key by key, runs figure by figure."""
