"""Other Python environments to compare with: named, created once, and kept in perfkit's cache."""
