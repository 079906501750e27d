"""A loop that perfkit was attached to."""
