"""Faults of many small calls."""

from benchmarks.tune.fault import Fault

_REPEATED = ("calls.repeated",)

FAULTS = (
    Fault(
        "loop_over_samples",
        "distillation",
        (("logits = student(x)", "logits = torch.stack([student(sample) for sample in x])"),),
        _REPEATED,
        ("--batch", "64"),
    ),
    Fault(
        "loss_of_each_sample",
        "tabular_mlp",
        (
            (
                "loss = F.cross_entropy(logits, y)",
                "loss = sum(F.cross_entropy(row, label) for row, label in zip(logits, y)) / len(y)",
            ),
        ),
        _REPEATED,
    ),
    Fault(
        "loop_over_heads",
        "vision_transformer",
        (
            (
                "y = F.scaled_dot_product_attention(q, k, v)",
                "y = torch.stack([\n"
                "            torch.stack([F.scaled_dot_product_attention(a[None], b[None], c[None])[0] for a, b, c in zip(*heads)])\n"
                "            for heads in zip(q, k, v)\n"
                "        ])",
            ),
        ),
        _REPEATED,
        ("--patch", "8"),
    ),
    Fault(
        "returns_in_python",
        "policy_gradient",
        (
            (
                "    length = len(rewards)\n"
                "    ages = torch.arange(length)\n"
                "    weights = (discount ** (ages[None, :] - ages[:, None]).clamp(min=0).float()).triu()\n"
                "    return weights @ rewards",
                "    returns = torch.zeros_like(rewards)\n"
                "    for column in range(rewards.shape[1]):\n"
                "        total = 0.0\n"
                "        for row in reversed(range(len(rewards))):\n"
                "            total = rewards[row, column] + discount * total\n"
                "            returns[row, column] = total\n"
                "    return returns",
            ),
        ),
        _REPEATED,
    ),
    Fault(
        "negatives_one_by_one",
        "ranking",
        (
            (
                "scores = model(user, torch.cat((positive.unsqueeze(1), negatives), 1))",
                "scores = torch.cat([model(user, items.unsqueeze(1)) for items in (positive, *negatives.T)], 1)",
            ),
        ),
        _REPEATED,
        ("--batch", "64", "--negatives", "79"),
    ),
    Fault(
        "messages_by_node",
        "graph_network",
        (
            (
                "gathered = torch.zeros_like(messages).index_add(0, target, messages[source])",
                "gathered = torch.stack([part.sum(0) for part in messages[source].split(8)])\n"
                "        gathered = torch.zeros_like(messages).index_add(0, target[::8], gathered)",
            ),
        ),
        _REPEATED,
    ),
)
