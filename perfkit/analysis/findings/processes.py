"""Findings about dumped collectives and sampled processes, which are reported outside the rules."""

from perfkit.analysis.findings.rule import WARNING, FindingKind

COLLECTIVES = (
    FindingKind(
        "collective.order",
        WARNING,
        "Ranks of a group call different collectives at one sequence number, or ranks of several groups wait for each "
        "other.",
        "Call collectives in one order on all ranks: look for a branch that only some ranks take.",
    ),
    FindingKind(
        "collective.shapes",
        WARNING,
        "Ranks call one collective with different shapes.",
        "Pass the same shapes on all ranks: check the last, uneven batch and parameters without gradient.",
    ),
    FindingKind(
        "collective.dtypes",
        WARNING,
        "Ranks call one collective with different dtypes.",
        "Pass the same dtype on all ranks: look for autocast or a cast on only some ranks.",
    ),
    FindingKind(
        "collective.absent_rank",
        WARNING,
        "A rank has a record, and did not enter a collective in which others wait.",
        "Find where that rank is: its Python stack, its log, its traceback.",
    ),
    FindingKind(
        "collective.no_record",
        WARNING,
        "Ranks without a record are missing from a collective.",
        "Find out how these ranks ended, or dump their recorders too with `TORCH_NCCL_DUMP_ON_TIMEOUT=1`.",
    ),
    FindingKind(
        "collective.unfinished",
        WARNING,
        "All ranks entered a collective, but not all finished it.",
        "Check the network, and ranks whose device has stopped.",
    ),
)

_TENTH = "in at least 10 % of the main thread's samples"

MAIN_THREAD = (
    FindingKind(
        "main_thread.data",
        WARNING,
        f"The DataLoader fetches or waits for a batch {_TENTH}.",
        "Give the DataLoader more workers, or make samples cheaper.",
    ),
    FindingKind(
        "main_thread.synchronize",
        WARNING,
        f"`synchronize()` waits for the device {_TENTH}.",
        "Call it every N steps only.",
    ),
    FindingKind(
        "main_thread.optimizer",
        WARNING,
        f"The optimizer step runs {_TENTH}.",
        "Use `foreach=True` or `fused=True` where the optimizer has it.",
    ),
    FindingKind(
        "main_thread.checkpoint",
        WARNING,
        f"A checkpoint is saved {_TENTH}.",
        "Save less often, to a local disk first, or with `torch.distributed.checkpoint.async_save`.",
    ),
    FindingKind(
        "main_thread.tensor_reads",
        WARNING,
        f"The program reads values of tensors (`.item()`, `.tolist()`, `.cpu()`, `.numpy()`) {_TENTH}.",
        "Keep values that are only logged on the device, and read them every N steps.",
    ),
)
