"""Faults of the update."""

from benchmarks.tune.fault import Fault

_EXTRA = ("step.metrics",)

FAULTS = (
    Fault(
        "update_of_each_parameter",
        "autoencoder",
        (("fused=True", "foreach=False"),),
        ("optimizer.unfused",),
        ("--batch", "64"),
    ),
    Fault(
        "decay_in_the_loss",
        "tabular_mlp",
        (
            (
                "loss = F.cross_entropy(logits, y)",
                "loss = F.cross_entropy(logits, y) + 1e-4 * sum(p.pow(2).sum() for p in model.parameters())",
            ),
            (", weight_decay=1e-4", ""),
        ),
        ("optimizer.decay_in_loss", "fusion.elementwise"),
        ("--batch", "64"),
    ),
    Fault(
        "gradients_zeroed",
        "distillation",
        (("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"),),
        ("fill.zeros",),
        ("--batch", "32", "--width", "640"),
    ),
    Fault(
        "average_in_python",
        "averaged_weights",
        (
            (
                "torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)",
                "for name, value in model.state_dict().items():\n"
                "                average.state_dict()[name].copy_(0.99 * average.state_dict()[name] + 0.01 * value)",
            ),
        ),
        ("fusion.elementwise", *_EXTRA),
        ("--batch", "32"),
    ),
    Fault(
        "clipped_twice",
        "tabular_mlp",
        (
            (
                "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
                "        for _ in range(4):\n            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)\n",
            ),
        ),
        ("clip.repeated", *_EXTRA, "calls.repeated"),
        ("--batch", "64"),
    ),
)
