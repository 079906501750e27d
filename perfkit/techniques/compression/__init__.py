"""Model compression: distillation, pruning, sparsity, quantization."""
