"""Compares the losses of an edited script with the original's, again with equal random numbers where it is compiled."""

from perfkit.tune.script.judge_edits import LossComparison, Losses, LossReference, allows, compare_losses
from perfkit.tune.script.script_bench import Edits, ScriptBench
from perfkit.tune.script.script_rounds import VariantFailedError

_COMPILED = "compile"


def compare_edited_losses(bench: ScriptBench, edits: Edits, losses: Losses, reference: LossReference) -> LossComparison:
    """Compare the losses of a process with these edits with the original's.

    Compiled code draws other random numbers than eager code, from the same distributions: with dropout its losses
    differ. They are then taken from one more process, whose compiled code draws the numbers of eager code. What is
    timed and written is the code without that. Not where losses have to be the original's own.
    """
    compared = compare_losses(losses, reference, edits)
    draws = compared.verdict == "differs" and _COMPILED in edits and bench.request.allow != "lossless"
    if not draws:
        return compared
    try:
        again = compare_losses(bench.measure_eager_losses(edits), reference, edits)._replace(eager_random=True)
    except VariantFailedError:
        return compared
    return again if allows(again, edits, bench.request.allow) else compared
