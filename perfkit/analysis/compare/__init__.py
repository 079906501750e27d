"""Two sides held against each other: traces op by op, environments key by key, runs figure by figure."""
