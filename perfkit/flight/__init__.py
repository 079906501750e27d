"""What torch's flight recorder keeps of collectives, and where ranks do not meet in them."""
