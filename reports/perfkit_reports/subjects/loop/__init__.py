"""Reports on a loop that perfkit was attached to."""
