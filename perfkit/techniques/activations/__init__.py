"""Techniques that change what is kept for the backward pass, and attention."""
