"""Faults of what a loop does besides training."""

from benchmarks.tune.fault import Fault

_METRICS = ("step.metrics",)

FAULTS = (
    Fault(
        "deepcopy_for_average",
        "averaged_weights",
        (
            (
                "        with torch.no_grad():\n            torch._foreach_lerp_",
                "        old = average\n"
                "        average = copy.deepcopy(model).requires_grad_(False)\n"
                "        with torch.no_grad():\n"
                "            torch._foreach_lerp_(list(average.parameters()), list(old.parameters()), 0.99)\n"
                "        with torch.no_grad():\n            torch._foreach_lerp_",
            ),
        ),
        ("loop.deep_copies",),
    ),
    Fault(
        "saved_each_step",
        "deep_q_learning",
        (
            ("import copy\n", "import copy\nimport tempfile\nfrom pathlib import Path\n"),
            (
                "        optimizer.step()\n",
                '        optimizer.step()\n        torch.save(network.state_dict(), Path(tempfile.gettempdir()) / "planted_network.pt")\n',
            ),
        ),
        ("loop.checkpoints",),
    ),
    Fault(
        "collected_each_step",
        "graph_network",
        (
            ("import argparse\n", "import argparse\nimport gc\n"),
            ("        optimizer.step()\n", "        optimizer.step()\n        gc.collect()\n"),
        ),
        ("loop.garbage_collection",),
    ),
    Fault(
        "many_cycles",
        "contrastive",
        (
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n"
                '        nodes = [{"step": step} for _ in range(20_000)]\n'
                "        for node in nodes:\n"
                '            node["self"] = node\n',
            ),
        ),
        ("loop.garbage_collection", "loop.python"),
    ),
    Fault(
        "confusion_each_step",
        "tabular_mlp",
        (
            (
                "        total += loss.detach()\n",
                "        total += loss.detach()\n"
                "        guesses = logits.argmax(1)\n"
                "        confusion = [[((guesses == i) & (y == j)).sum().item() for i in range(CLASSES)] for j in range(CLASSES)]\n",
            ),
        ),
        _METRICS,
    ),
    Fault(
        "histograms_each_step",
        "distillation",
        (
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n        histograms = [torch.histc(p.detach(), 64) for p in student.parameters()]\n",
            ),
        ),
        _METRICS,
    ),
    Fault(
        "top_k_each_step",
        "lstm_language",
        (
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n        ranks = logits.detach().argsort(-1, descending=True)\n",
            ),
        ),
        _METRICS,
    ),
    Fault(
        "norms_in_python",
        "char_transformer",
        (
            (
                "        total += loss.detach()\n",
                "        total += loss.detach()\n"
                "        norms = {name: [value.norm().item() for value in p.grad.flatten(1).T] if p.dim() > 1 else [] for name, p in model.named_parameters()}\n",
            ),
        ),
        (*_METRICS, "calls.repeated"),
        ("--batch", "4", "--length", "64"),
    ),
    Fault(
        "prints_tensors",
        "vision_transformer",
        (
            (
                "        optimizer.step()\n",
                '        optimizer.step()\n        print(f"{step}: {x} {y} {model.head.weight.grad} {model.positions}")\n',
            ),
        ),
        ("loop.printing",),
        ("--batch", "4"),
    ),
    Fault(
        "logs_each_value",
        "ranking",
        (
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n        log = {index: value.item() for index, value in enumerate(scores.detach().flatten())}\n",
            ),
        ),
        ("loop.tensor_reads", "calls.repeated", *_METRICS),
    ),
    Fault(
        "loader_of_one",
        "unet",
        (
            (
                "loss = F.cross_entropy(logits, y)\n        optimizer.zero_grad()\n        loss.backward()",
                "optimizer.zero_grad()\n"
                "        for one, mask in zip(x, y):\n"
                "            loss = F.cross_entropy(model(one[None]), mask[None]) / len(x)\n"
                "            loss.backward()",
            ),
            ("        logits = model(x)\n", ""),
        ),
        ("accumulation.small_batches", "calls.repeated"),
        ("--batch", "16", "--size", "16"),
    ),
    Fault(
        "accumulates_eighths",
        "averaged_weights",
        (
            (
                "loss = F.mse_loss(model(inputs[picked]), targets[picked])\n        optimizer.zero_grad()\n        loss.backward()",
                "optimizer.zero_grad()\n"
                "        for part in picked.chunk(16):\n"
                "            loss = F.mse_loss(model(inputs[part]), targets[part]) / 16\n"
                "            loss.backward()",
            ),
        ),
        ("accumulation.small_batches", "calls.repeated"),
    ),
)
