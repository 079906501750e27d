"""Faults of autograd: graphs that nothing uses, work done twice."""

from benchmarks.tune.fault import Fault

_UNUSED = ("autograd.unused_graph",)

FAULTS = (
    Fault(
        "target_with_graph",
        "deep_q_learning",
        (
            (
                "with torch.no_grad():\n            best = target(next_states[picked]).amax(1)",
                "best = target(next_states[picked]).amax(1).detach()",
            ),
        ),
        _UNUSED,
    ),
    Fault(
        "forward_twice",
        "char_transformer",
        (
            (
                "total += loss.detach()",
                "total += F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).detach()",
            ),
        ),
        _UNUSED,
    ),
    Fault(
        "forward_for_accuracy",
        "vision_transformer",
        (
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n        accuracy = (model(x).argmax(1) == y).float().mean()\n",
            ),
        ),
        _UNUSED,
    ),
    Fault(
        "critic_gradients_unused",
        "image_gan",
        (
            ("        critic.requires_grad_(False)\n", ""),
            ("        critic.requires_grad_(True)\n", ""),
        ),
        ("autograd.unused_gradients",),
    ),
    Fault(
        "backward_twice",
        "tabular_mlp",
        (
            (
                "loss.backward()",
                "loss.backward(retain_graph=True)\n        optimizer.zero_grad()\n        loss.backward()",
            ),
        ),
        ("autograd.repeated_backward",),
    ),
    Fault(
        "anomaly_detection",
        "text_classifier",
        (("    torch.manual_seed(0)\n", "    torch.manual_seed(0)\n    torch.autograd.set_detect_anomaly(True)\n"),),
        ("autograd.anomaly_detection",),
    ),
    Fault(
        "checkpointed_blocks",
        "char_transformer",
        (
            ("import torch.nn.functional as F\n", "import torch.nn.functional as F\nimport torch.utils.checkpoint\n"),
            ("x = block(x)", "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"),
        ),
        ("checkpointing.recompute",),
    ),
    Fault(
        "checkpointed_layers",
        "averaged_weights",
        (
            ("import torch.nn.functional as F\n", "import torch.nn.functional as F\nimport torch.utils.checkpoint\n"),
            (
                "loss = F.mse_loss(model(inputs[picked]), targets[picked])",
                "x = inputs[picked]\n"
                "        for layer in model:\n"
                "            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)\n"
                "        loss = F.mse_loss(x, targets[picked])",
            ),
        ),
        ("checkpointing.recompute",),
        ("--batch", "256"),
    ),
)
