"""`perfkit check`: measures what was asked for, judges it, and writes down why."""
