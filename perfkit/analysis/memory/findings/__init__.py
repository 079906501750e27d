"""Rules about an account of memory."""
