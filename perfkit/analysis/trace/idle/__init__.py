"""Idle time of a device, split by cause and CPU place."""
