"""Findings about dumped collectives and sampled processes, which no rule of the tables reports."""

from perfkit.analysis.findings.rule import WARNING, FindingKind

COLLECTIVES = (
    FindingKind(
        "collective.order",
        WARNING,
        "Ranks of a group call different collectives at the same number of the sequence.",
        "Call collectives in one order on all ranks: look for a branch that only some take.",
    ),
    FindingKind(
        "collective.shapes",
        WARNING,
        "Ranks call one collective with different shapes.",
        "Give the same shapes on all ranks: look at a last, uneven batch and at parameters without gradient.",
    ),
    FindingKind(
        "collective.dtypes",
        WARNING,
        "Ranks call one collective with different dtypes.",
        "Give the same dtype on all ranks: look for autocast or a cast that only some ranks make.",
    ),
    FindingKind(
        "collective.absent_rank",
        WARNING,
        "A rank that left a record did not enter a collective in which others wait.",
        "Look where that rank is: its Python stack, its log, its own traceback.",
    ),
    FindingKind(
        "collective.no_record",
        WARNING,
        "A collective was not entered by all, and the ranks that are missing left no record.",
        "Find out how these ranks ended, or dump their recorders too with `TORCH_NCCL_DUMP_ON_TIMEOUT=1`.",
    ),
    FindingKind(
        "collective.unfinished",
        WARNING,
        "All ranks entered a collective, and not all finished it.",
        "Look at the network, and at ranks whose device has stopped.",
    ),
)

_TENTH = "in 10 % of the samples of the main thread"

MAIN_THREAD = (
    FindingKind(
        "main_thread.data",
        WARNING,
        f"The DataLoader fetches or waits for a batch {_TENTH}.",
        "Give the DataLoader more workers, or make a sample cheaper.",
    ),
    FindingKind(
        "main_thread.synchronize",
        WARNING,
        f"`synchronize()` waits for the device {_TENTH}.",
        "Ask for results of the device every some steps only.",
    ),
    FindingKind(
        "main_thread.optimizer",
        WARNING,
        f"An optimizer steps {_TENTH}.",
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
        "Keep what is only logged on the device, and read it every some steps.",
    ),
)
