"""Memory: from allocation events to a balance in which every byte at the peak has its category."""
