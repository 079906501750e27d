"""Fused updates in torch, by the class of the optimizer."""

from collections.abc import Collection

# torch.optim: those that take fused=True.
FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})

# What Adam reads and writes of a parameter in one pass.
ADAM_LIKE = frozenset({"Adam", "AdamW"})

# Its state is a history of directions, as long as it was told to be, and its vectors are of all parameters at once.
LBFGS = "LBFGS"


def advise_fused_update(classes: Collection[str]) -> str:
    """How an update in many ops becomes one in few, for optimizers of these classes; "" where torch has no way.

    Of none it is not known which they are: the advice then names the usual one.
    """
    fused = sorted(FUSED.intersection(classes)) or ([] if classes else ["AdamW"])
    others = sorted(set(classes) - FUSED - {LBFGS})
    parts = []
    if fused:
        built = " and ".join(f"{name}(fused=True)" for name in fused)
        parts.append(f"Build it with fused=True, such as {built}, or compile its step with torch.compile.")
    if others:
        none = f"{' and '.join(others)} {'has' if len(others) == 1 else 'have'} no fused version in torch"
        parts.append(f"{none}: compile the step with torch.compile (torch.compile(optimizer.step)).")
    return " ".join(parts)
