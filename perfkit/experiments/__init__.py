"""Code that no recorded input has reached yet: its tests feed it synthetic ones.

The main paths import it only for the inputs that it is for. What has met a recording belongs to the package of its
subject.
"""
