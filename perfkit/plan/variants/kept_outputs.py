"""Memory of the outputs that an evaluation loop keeps for its metrics, by the rules of Transformers' Trainer."""

from typing import NamedTuple

from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation


class KeptOutputs(NamedTuple):
    """Bytes above the peak of one evaluation step on the device, and bytes in main memory."""

    device: int
    host: int


def compute_kept_outputs(
    evaluation: RehearsedEvaluation, forward_bytes: int, batches: int, accumulation: int | None = None, *, on_cpu: bool
) -> KeptOutputs:
    """Memory of keeping the logits and labels of all batches, on top of a step of `forward_bytes` above what is held.

    `accumulation` batches are kept on the device (`eval_accumulation_steps`), else all of them; the rest is in NumPy
    arrays in main memory. Source: `Trainer.evaluation_loop` and `EvalLoopContainer` of Transformers 5: each batch's
    logits, gathered from all ranks, are joined to those before by `torch.cat`, so that both the old and the new tensor
    exist then; and in a forward pass the loop still has the batch before in a variable, beside all joined batches.

    On a CPU the first arrays are the tensors' own memory, which lasts until the second ones are joined to them.
    """
    logits, labels = (evaluation.copies * size for size in (evaluation.logits_bytes, evaluation.labels_bytes))
    kept = batches if accumulation is None else min(accumulation, batches)
    # The only batch before the second is kept as it is; of the batch in the variable all others have a copy.
    before = kept if kept > 2 else kept - 1
    in_forward = before * (logits + labels) + forward_bytes
    in_join = 2 * kept * logits + (kept - 1) * labels if kept > 1 else logits
    peak = max(in_forward, in_join + evaluation.inputs_bytes)
    whole, shared = batches * (logits + labels), kept * (logits + labels)
    arrays_before = shared if on_cpu and batches > kept else 0
    if on_cpu:
        host = 2 * whole - shared if batches > kept else 0
    else:
        host = 2 * whole if batches > kept else whole
    return KeptOutputs(max(0, peak + arrays_before - forward_bytes), host)
