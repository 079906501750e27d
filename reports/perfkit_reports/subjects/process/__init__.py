"""What a running process does, seen from outside."""
