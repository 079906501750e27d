"""Workloads: the models, optimizers, batches and losses that are trained."""
