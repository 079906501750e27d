"""The data of workloads: synthetic batches, JPEGs, data sets of them, and their augmentations."""
