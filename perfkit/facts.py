"""The facts that claims are about, and what each means: `perfkit.FACTS`.

A `perfkit.Claim` says `fact relation value`. Names with `<...>` stand for one fact a dtype or list of patterns.
"""

# What a worker records of its rank.
RECORDED = {
    "parameter_bytes": "bytes of the parameters that this rank holds",
    "parameter_bytes:<dtype>": "those of one dtype (fp32, bf16)",
    "trainable_parameter_bytes": "bytes of those that take gradients",
    "adapter_bytes": "bytes of low-rank adapters by formula: their rank times the inputs and outputs of each layer",
    "weights_in_4_bits": "weights of the layers that a technique has rounded to 4 bits",
    "zero_weight_share": "share of the weights of linear layers and convolutions that are zero in the forward pass",
    "reference_parameter_bytes": "bytes of the unmodified model's parameters",
    "gradient_bytes": "bytes of gradients after a backward pass; local bytes of distributed tensors",
    "optimizer_state_bytes": "bytes of optimizer state after a step; local bytes of distributed tensors",
    "saved_tensor_bytes": "bytes that one microbatch's forward leaves allocated on the training device for backward",
    "reference_saved_tensor_bytes": "the same for the unmodified model, of as large a microbatch",
    "block_saved_tensor_bytes": "bytes that the checkpointed blocks' forward (else all blocks') leaves allocated there",
    "reference_block_saved_tensor_bytes": "bytes that the same blocks of the unmodified model save",
    "recomputed_blocks": "how many of these blocks, or of their segments, run their forward again within backward",
    "block_flops": "FLOPs of matrix products, convolutions and attention in one forward of these blocks",
    "recomputed_flops": "those of their forward within backward",
    "saved_ops": "how many of the ops that selective checkpointing names ran in the blocks, and are not recomputed",
    "activation_memory_budget": "share of what it saves for backward that torch.compile was told to keep",
    "attention_reach": "keys that the last query of a call of attention depends on, where a technique limits them",
    "random_forward": "1 where the forward of the unmodified model draws random numbers (dropout), else 0",
    "random_updates": "1 where an update of the parameters draws random numbers (stochastic rounding), else 0",
    "batch_size": "samples of a batch; absent where its tensors do not agree on it",
    "sequence_length": "tokens of its sequences; absent where its tables of integers do not agree on it",
    "backward_passes": "backward passes of a step; absent for a workload's own step",
    "convolutions": "calls of 2-d convolutions in one forward pass; absent for compiled code",
    "channels_last_convolutions": "those of them whose output has its channels last in memory",
    "compression_error": "what 8 bits lose of the activations saved in the first step: root mean square, relative",
    "engine_updates": "updates of a step that an engine told its own callbacks of",
    "engine_batches": "batches of a step that its loop has taken",
    "skipped_updates": "updates until the last timed step that a gradient scaler left out, since gradients overflowed",
    "skipped_updates_compared": "those of them between the losses that are compared",
    "bytes_to_disk": "bytes that the technique itself wrote to disk in an optimizer step",
    "bytes_from_disk": "bytes that it read from disk in an optimizer step",
    "bytes_to_host": "bytes that it moved to main memory in an optimizer step",
    "bytes_from_host": "bytes that it moved from main memory in an optimizer step",
    "graphs": "distinct forward graphs of torch.compile",
    "graph_breaks": "graph breaks, counted while compiling: once for code that several layers share",
    "dynamic_graphs": "graphs of torch.compile whose guards are on symbolic sizes (dynamic=true)",
    "recompiles": "graphs made because a guard failed",
    "compile_s": "seconds spent compiling",
    "compile_cache_hits": "graphs found in torch.compile's caches",
    "compile_cache_misses": "graphs that were not",
    "world_size": "number of ranks",
    "traced_kernels_launched": "kernels of the traced steps, on a GPU",
    "traced_kernels_lost": "those of them that the profiler lost",
    "trace_passes": "how often was traced",
}

# What the analysis counts in the trace, a step, and only where a claim names it.
DERIVED = {
    "op_calls:<globs>": "calls of ops by name, nested ones too; patterns are separated by commas and add up",
    "backward_op_calls:<globs>": "those within the backward phase: forward ops there are recomputation",
    "range_calls:<globs>": "ranges by name that the program marked: torch marks each optimizer's step with its class",
    "kernel_calls:<globs>": "device kernels; on a CPU the kernels that torch.compile generated",
    "matmul_kernel_calls:<dtype>": "matrix kernels that multiply in the dtype (tf32, bf16), as their names tell",
    "matmul_flops_share:<dtype>": "share of the FLOPs of GEMMs whose operands have the dtype",
    "matmul_time_share:<dtype>": "share of the time of matrix kernels of the dtype, by their names",
    "graph_launches": "launches of CUDA graphs; absent where no device was traced",
}

FACTS = RECORDED | DERIVED
