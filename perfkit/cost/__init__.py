"""Computes FLOPs and bytes of an op from its recorded inputs."""
