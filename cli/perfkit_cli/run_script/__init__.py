"""`python -m perfkit.run train.py`: a program is run as Python would run it, and the loop in it is watched."""
