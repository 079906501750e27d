"""Datasheet peaks of GPUs."""
