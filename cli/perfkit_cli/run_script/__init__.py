"""`python -m perfkit.run train.py`: runs a program as Python would, and watches its training loop."""
