"""Facts of this machine: processor, GPUs, fingerprint, fp32 settings."""
