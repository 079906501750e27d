import torch

from perfkit import Workload
from perfkit.workloads.parameters import Count, Parameters


@torch.library.custom_op("example::squared_relu", mutates_args=())
def squared_relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu().square()


squared_relu.register_autograd(
    lambda ctx, grad: 2 * grad * ctx.saved_tensors[0].relu(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),  # noqa: ARG005
)


class SquaredReLU(torch.nn.Module):
    def forward(self, x):
        return squared_relu(x)


class Mlp(Parameters):
    usage = "mlp"
    summary = "two layers that learn to repeat their input"
    width: Count = 64

    def build(self) -> Workload:
        nn, wide = torch.nn, 4 * self.width
        return Workload(
            name="mlp",
            unit="samples",
            units_per_batch=32,
            build_model=lambda: nn.Sequential(nn.Linear(self.width, wide), SquaredReLU(), nn.Linear(wide, self.width)),
            build_optimizer=lambda model: torch.optim.AdamW(model.parameters()),
            make_batch=lambda generator: {"x": torch.randn(32, self.width, generator=generator)},
            loss=lambda model, batch: nn.functional.mse_loss(model(batch["x"]), batch["x"]),
        )
