"""What two sides did differently, and what stands out of it."""
