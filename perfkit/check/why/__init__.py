"""Differences between what two sides did, and what stands out of them."""
