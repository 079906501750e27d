"""The facts that claims refer to, with their meanings: `perfkit.FACTS`, and the source of docs/facts.md.

A `perfkit.Claim` says `fact relation value`. A name with `<...>` stands for one fact per dtype, kind or list of
patterns.
"""

# Facts that a worker records for its rank, by subject.
RECORDED_BY_SUBJECT = {
    "Parameters and training state": {
        "parameter_bytes": "bytes of the parameters on this rank",
        "parameter_bytes:<dtype>": "bytes of the parameters of one dtype (fp32, bf16)",
        "trainable_parameter_bytes": "bytes of the parameters that take gradients",
        "reference_parameter_bytes": "bytes of the unmodified model's parameters",
        "unsharded_parameter_bytes": "bytes of the parameters before FSDP2 shards them, added parameters included",
        "gradient_bytes": "bytes of gradients after a backward pass (local bytes of distributed tensors); for a "
        "workload with its own step the maximum over its optimizer updates",
        "gradient_norm": "L2 norm of this rank's gradients of the first update; absent for pipelines",
        "gradient_norm_share": "root of this rank's share of the square of the norm over all ranks, where gradients "
        "that several ranks hold are divided among them",
        "buffer_norm": "L2 norm of the model's buffers (running statistics) after the compared warm-up steps; absent "
        "with several ranks",
        "optimizer_state_bytes": "bytes of optimizer state after a step (local bytes of distributed tensors)",
        "batch_size": "samples in the first batch; absent if its tensors disagree",
        "sequence_length": "tokens of a sequence in the first batch; absent if its integer tensors disagree",
        "optimizer_state_bytes:<dtype>": "bytes of optimizer state of one dtype",
        "updated_parameter_bytes": "bytes of the parameters that this rank's optimizers update in a step",
        "updated_parameter_bytes:<ops>": "bytes of those that torch's `fused` or `foreach` ops update",
        "live_bytes:<category>": "bytes on the training device between two steps (`parameter`, `gradient`, "
        "`optimizer state`, `buffer`); `other` are tensors outside of these, datasets excepted, `host` such tensors in "
        "host memory if that is not the device's",
        "live_bytes:other:<dtype>": "those of one dtype; so `live_bytes:host:<dtype>`",
        "declared_bytes:<category>": "bytes that the techniques say they add to a category between steps; absent where "
        "one sets no limit",
        "world_size": "number of ranks",
        "unreached_parameters": "trained parameters that the loss does not reach, for which DistributedDataParallel "
        "looks in every step (find_unused_parameters); absent if there are none",
    },
    "Adapters, quantization and sparsity": {
        "adapter_bytes": "bytes of low-rank adapters by formula: their rank times inputs plus outputs of each adapted "
        "layer; this rank's share if sharded",
        "adapter_gradient_bytes": "bytes of the adapters' gradients by formula; FSDP2 pads shards to equal sizes",
        "weights_in_4_bits": "weights of the layers that a technique quantized to 4 bits",
        "fake_quantized_layers": "linear layers that fake-quantize their weight and input",
        "sparse_layers": "linear layers with 2:4 sparse weights",
        "float8_layers": "linear layers with fp8 matmuls",
        "emulated": "1 if the device emulates a technique's numerics by slower means, or ranks share a GPU: such a "
        "variant is not compared with the baseline",
        "zero_weight_share": "share of the weights of linear and convolution layers that are zero in forward",
        "masks_changed": "weights for which a mask from a short training differs from a mask by initial magnitude",
        "weights_begun_late": "pruned layers' weights that start from values after some training steps, not from "
        "initialization",
        "compression_error": "relative RMS error of the 8-bit activations saved in the first step",
    },
    "Distillation": {
        "teacher_flops": "FLOPs of GEMMs, convolutions and attention of a frozen teacher, per microbatch",
        "student_forward_flops": "the same FLOPs of the model's forward pass when the teacher was copied from it",
        "teacher_forward_flops": "the same FLOPs of the forward pass of a teacher that the workload builds",
        "teacher_bytes": "bytes of the teacher's parameters",
        "teacher_bytes_by_formula": "bytes of the teacher's parameters by formula: number of weights times their size",
        "teacher_gradient_bytes": "bytes of the teacher's gradients after a backward pass",
    },
    "Tensor and expert parallelism": {
        "split_parameter_bytes": "bytes of a rank's parameters under tensor parallelism by formula: the largest shard "
        "of split layers, and all other parameters",
        "split_activation_bytes": "bytes that split layers exchange in a step of all ranks, forward and backward: "
        "inputs of column-split and outputs of row-split layers, where gradients flow",
        "sequences_split": "1 if the plan splits sequences between layers, else 0",
        "split_layers": "layers that tensor parallelism splits and gradients flow through",
        "column_split_layers": "split layers that are split by their outputs (`ColwiseParallel`)",
        "row_split_layers": "split layers that are split by their inputs (`RowwiseParallel`)",
        "dealt_parameter_bytes": "bytes of a rank's parameters under expert parallelism by formula: its experts, and "
        "all other parameters",
        "dealt_gradient_bytes": "gradient bytes of a rank's experts that are summed over replicas in a step, once per "
        "microbatch",
        "experts_have_slots": "1 if experts have a fixed capacity, so that the message size does not depend on the "
        "router",
        "expert_exchanges": "all-to-alls of the expert layers in a step, as found in a forward pass of the whole model",
        "backward_expert_exchanges": "all-to-alls of the expert layers in backward",
        "expert_exchanged_bytes": "bytes of these all-to-alls: inputs and outputs of the experts, and their gradients",
    },
    "Pipeline parallelism": {
        "stage_parameter_bytes": "bytes of the parameters that this rank's pipeline stages use, by formula; a "
        "parameter used on several ranks counts on each",
        "stage_gradient_bytes": "bytes of the stage parameters that take gradients, by formula",
        "stage_message_bytes": "bytes that this rank's stages send in a step, by formula; they receive the same number",
        "pipeline_stages": "pipeline stages of each rank",
        "pipeline_microbatches": "microbatches in a pipelined step",
        "microbatches_in_flight": "maximum number of forward passes of a rank's stages that await their backward pass",
        "scheduled_microbatches_in_flight": "the same maximum according to the schedule",
        "expected_bubble_share": "theoretical bubble: idle share of a rank, for equal stages and free messages",
        "stage_busy_s": "seconds of a timed step in which this rank's stages compute (on a GPU: launch)",
        "pipeline_s": "seconds of a timed step from the first microbatch until all gradients are complete",
    },
    "Saved activations and recomputation": {
        "saved_tensor_bytes": "bytes that one microbatch's forward leaves allocated on the training device for "
        "backward, or all forward passes of a workload with its own step; absent after a CUDA graph replay",
        "reference_saved_tensor_bytes": "the same bytes for the unmodified model and an equally large microbatch",
        "block_saved_tensor_bytes": "bytes that the forward passes of the checkpointed blocks leave allocated (of all "
        "blocks if none is checkpointed); like the next nine absent for compiled code",
        "reference_block_saved_tensor_bytes": "bytes that the same blocks of the unmodified model save",
        "recomputed_blocks": "checkpointed blocks that run their forward again in backward; for segments of several "
        "blocks, the number of segments",
        "block_flops": "matrix FLOPs of these blocks' forward, per microbatch",
        "recomputed_flops": "matrix FLOPs of these blocks' forward within backward, per microbatch",
        "block_ops": "ops of these blocks' forward that work on data (no views or allocations), per microbatch",
        "recomputed_ops": "such ops within backward, per microbatch, as a trace's recomputed ops; none of the last "
        "ones whose results backward does not need",
        "block_gemms": "GEMMs (`mm`, `addmm`) of these blocks' forward, per microbatch",
        "recomputed_gemms": "GEMMs of these blocks' forward within backward, per microbatch",
        "buffers_changed_again": "buffers of these blocks (running statistics) that backward changed",
        "saved_ops": "ops named by selective checkpointing that ran in the blocks and are not recomputed",
        "activation_memory_budget": "activation memory budget given to torch.compile, as a share",
        "attention_reach": "number of keys that the last query of an attention call depends on, if a technique limits "
        "it",
        "random_forward": "1 if the unmodified model's forward advances torch's random generators (dropout), else 0",
        "random_updates": "1 if a parameter update advances torch's random generators (stochastic rounding), else 0",
    },
    "Communication": {
        "collective_bytes:<kind>": "message bytes of one kind of collective (`all-reduce`, `all-gather`, "
        "`reduce-scatter`, `all-to-all`, `send`, `receive`) that a rank requests in a step, counted as by nccl-tests: "
        "gathers and scatters count all ranks' data; absent on one rank",
        "collective_bytes:<kind>:<dimension>": "the same bytes along one dimension of the mesh (`dp`, `tp`)",
        "collective_volume:<kind>": "minimum bytes on a rank's links in one direction: 2 (n - 1) / n of an "
        "all-reduce over n ranks, (n - 1) / n of a gather, scatter or exchange, by the groups of the calls",
        "recorded_collectives": "collectives of a step, of all kinds, by torch's flight recorder: those of an attached "
        "loop on Gloo",
        "attention_calls": "calls of `scaled_dot_product_attention` in a forward pass of the whole model, for `cp`",
        "bytes_of_factors": "bytes of PowerSGD's low-rank factors, and of gradients sent uncompressed, in the last "
        "exchange",
        "bytes_to_disk": "bytes that the technique writes to disk per optimizer step",
        "bytes_from_disk": "bytes that the technique reads from disk per optimizer step",
        "bytes_to_host": "bytes that the technique copies to host memory per optimizer step",
        "bytes_from_host": "bytes that the technique copies from host memory per optimizer step",
    },
    "The step": {
        "staleness": "age in steps of the gradients that are applied last",
        "steps_of_a_cycle": "steps until the work of a step repeats, if more than one: whole cycles are timed, traced "
        "and counted, and figures per step are their mean",
        "backward_passes": "backward passes in a step; absent for a workload with its own step and for pipelines",
        "all_attention_calls": "attention calls of a step, recomputed ones too: fused ops, and softmaxes between "
        "batched products",
        "fused_attention_calls": "those that fused ops compute; torch's math backend does not count",
        "convolutions": "calls of 2-d convolutions in one forward pass; absent for compiled code",
        "channels_last_convolutions": "2-d convolutions with a channels-last output; absent for compiled code",
        "engine_updates": "updates in a step that the engine (`engine`) reports to its callbacks",
        "engine_batches": "batches that the engine's loop takes in a step",
        "allocation_retries": "times in the timed steps that the caching allocator emptied its cache, since the device "
        "had no memory left, and asked again; like the next three on a GPU",
        "caught_out_of_memory": "out-of-memory errors in the timed steps",
        "device_allocations": "allocations of the driver in the timed steps (`cudaMalloc`, `cuMemMap`)",
        "device_frees": "frees of the driver in the timed steps (`cudaFree`, `cuMemUnmap`)",
        "skipped_updates": "updates skipped by a gradient scaler up to the last timed step",
        "skipped_updates_compared": "updates skipped by a gradient scaler between the compared losses",
    },
    "Data loading": {
        "data_wait_share": "share of the timed steps spent in `next()` of the DataLoader; absent without one, "
        "like all facts here",
        "loader_workers": "DataLoader workers running when the last epoch began",
        "loader_processes": "worker processes of the DataLoader started so far; absent before the second epoch",
        "loader_prefetched": "maximum number of batches requested ahead from the workers",
        "loader_pinned": "1 if batches come in pinned memory, else 0",
        "nonblocking_copies": "1 if batches are pinned and copied without blocking the CPU, else 0",
        "batch_calls:<package>": "calls of webdataset or albumentations functions to make one batch without workers",
    },
    "torch.compile": {
        "compilable_flops_share": "share of those FLOPs of forward in the modules to be compiled, before it",
        "graphs": "distinct forward graphs",
        "graph_breaks": "graph breaks during compilation; code shared by several layers counts once",
        "dynamic_graphs": "graphs with guards on symbolic sizes (`dynamic=true`)",
        "recompiles": "graphs compiled after a failed guard",
        "compile_s": "compilation time in seconds",
        "compile_cache_hits": "graphs found in torch.compile's caches",
        "compile_cache_misses": "graphs not found in torch.compile's caches",
        "autotuned": "GEMMs and convolutions whose kernels Inductor autotuned (`mode=max-autotune`)",
    },
    "The trace pass": {
        "traced_kernels_launched": "kernels launched in the traced steps, on a GPU",
        "traced_kernels_lost": "kernels of the traced steps without a record, on a GPU",
        "trace_passes": "number of trace passes, on a GPU",
    },
}

# Facts that the analysis counts in the trace, per step, when a claim names them.
DERIVED = {
    "op_calls:<globs>": "calls of ops by name, nested ones included; patterns are separated by commas and add up",
    "backward_op_calls:<globs>": "calls of ops in backward: forward ops there are recomputation",
    "range_calls:<globs>": "ranges marked by the program; torch marks optimizer steps (`Optimizer.step#AdamW.step`)",
    "kernel_calls:<globs>": "device kernels; on a CPU, kernels generated by torch.compile",
    "matmul_kernel_calls:<dtype>": "GEMM kernels whose names show the dtype (tf32, bf16)",
    "matmul_kernel_s:<dtypes>": "seconds of the GEMM kernels whose names show one of the dtypes (tf32,fp32)",
    "matmul_flops_share:<dtype>": "share of GEMM FLOPs with operands of the dtype",
    "matmul_time_share:<dtype>": "share of GEMM kernel time by dtype in kernel names; replaces the FLOPs share where "
    "GEMMs without an op have no FLOPs",
    "compiled_flops_share": "share of the step's FLOPs of GEMMs, convolutions and attention that eager ops do not show",
    "graph_launches": "launches of CUDA graphs; absent without a device trace",
}

RECORDED = {name: meaning for facts in RECORDED_BY_SUBJECT.values() for name, meaning in facts.items()}
FACTS = RECORDED | DERIVED
