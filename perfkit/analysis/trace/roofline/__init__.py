"""Roofs of a device, and the place of work on the roofline."""
