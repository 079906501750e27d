"""Fused updates in torch, by the class of the optimizer."""

from collections.abc import Collection

# torch.optim: those that take fused=True.
FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})

# Bytes that Adam reads and writes per parameter in one pass.
ADAM_LIKE = frozenset({"Adam", "AdamW"})

# Its state is a history of `history_size` directions, and its vectors are of all parameters at once.
LBFGS = "LBFGS"


def advise_fused_update(classes: Collection[str]) -> str:
    """Advise how to fuse the update of optimizers of these classes; "" where torch cannot.

    Without classes the optimizers are not known, and the advice names the usual one.
    """
    fused = sorted(FUSED.intersection(classes)) or ([] if classes else ["AdamW"])
    others = sorted(set(classes) - FUSED - {LBFGS})
    parts = []
    if fused:
        built = " and ".join(f"{name}(fused=True)" for name in fused)
        parts.append(f"Use {built}, or compile the step with torch.compile.")
    if others:
        verb = "has" if len(others) == 1 else "have"
        why = f"{' and '.join(others)} {verb} no fused version in torch"
        parts.append(f"Compile the step with torch.compile(optimizer.step): {why}.")
    return " ".join(parts)
