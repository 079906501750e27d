"""The target of a plan and its work: device, limit, disk, host."""
