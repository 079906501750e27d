"""Runs a training script a few steps at a time: `python -m benchmarks.tune.lockstep_worker STEPS SCRIPT [ARGUMENTS]`.

Reads a line before each turn of so many steps and writes the times of its steps, in seconds, and the losses that their
backward passes began with, as a line of JSON. A step ends with a step of the optimizer that stepped first. The script's
own output goes nowhere. With LOCKSTEP_EAGER_RANDOM=1 compiled code draws the random numbers of eager code.
"""

import json
import os
import runpy
import sys
import time
from typing import Any

import torch
import torch._inductor.config
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

EAGER_RANDOM = "LOCKSTEP_EAGER_RANDOM"


def main() -> None:
    turn, script, *arguments = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    times: list[float] = []
    marker: list[Optimizer] = []
    losses: list[float] = []
    begin = [0.0]
    run_backward = torch.Tensor.backward

    def keep_loss(loss: torch.Tensor, *args: Any, **options: Any) -> None:
        losses.append(loss.item())
        run_backward(loss, *args, **options)

    def end_step(optimizer: Optimizer, *_: Any) -> None:
        if not marker:
            marker.append(optimizer)
        if optimizer is not marker[0]:
            return
        times.append(time.perf_counter() - begin[0])
        if len(times) == int(turn) or not begin[0]:
            print(json.dumps({"times": times if begin[0] else [], "losses": losses}), file=answers)
            times.clear()
            losses.clear()
            if not sys.stdin.readline():
                os._exit(0)
        begin[0] = time.perf_counter()

    if os.environ.get(EAGER_RANDOM) == "1":
        torch._inductor.config.fallback_random = True
    torch.Tensor.backward = keep_loss  # type: ignore[assignment]
    register_optimizer_step_post_hook(end_step)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
