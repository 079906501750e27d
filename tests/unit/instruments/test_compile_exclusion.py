"""What perfkit does within compiled functions is not compiled."""

import torch
from torch import nn

from perfkit.instruments.compile_exclusion import call_uncompiled, exclude_from_compile, has_compiled_modules

seen: list[str] = []


def inner() -> None:
    seen.append("uncompiled" if torch._C._dynamo.eval_frame.get_eval_frame_callback() is None else "compiled")


@exclude_from_compile
def hook(x: torch.Tensor) -> torch.Tensor:
    call_uncompiled(inner)
    return x


def test_a_hook_that_is_met_after_a_graph_break() -> None:
    frames: list[str] = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> object:
        frames.append(graph.code)
        return graph.forward

    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda gradient: hook(gradient))

    @torch.compile(backend=backend)
    def step() -> None:
        loss = (x * 2).sum()
        torch._dynamo.graph_break()
        torch.autograd.backward(loss)

    torch._dynamo.reset()
    seen.clear()
    step()
    step()
    assert seen == ["uncompiled", "uncompiled"]
    assert torch.equal(hook(x), x)
    torch._dynamo.reset()


def test_modules_that_are_compiled_are_told_from_a_compiled_function() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    torch.compile(model.forward, backend="eager")
    assert not has_compiled_modules(model)
    assert has_compiled_modules(nn.Sequential(torch.compile(nn.Linear(2, 2), backend="eager")))
    model[0].compile(backend="eager")
    assert has_compiled_modules(model)
