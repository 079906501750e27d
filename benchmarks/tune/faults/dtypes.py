"""Faults of number formats."""

from benchmarks.tune.fault import Fault

_FP64 = ("dtype.fp64",)
_CASTS = ("dtype.conversions",)

FAULTS = (
    Fault(
        "fp64_table",
        "tabular_mlp",
        (
            ("rows = torch.from_numpy(table).float()", "rows = torch.from_numpy(table)"),
            (
                "model = build_model(100, args.width, args.layers)",
                "model = build_model(100, args.width, args.layers).double()",
            ),
        ),
        _FP64,
    ),
    Fault(
        "fp64_kernel",
        "gaussian_process",
        (("x = torch.randn(args.points, 8)", "x = torch.randn(args.points, 8, dtype=torch.float64)"),),
        _FP64,
    ),
    Fault(
        "fp64_loss",
        "lstm_language",
        (("loss = F.cross_entropy(logits.flatten(0, 1),", "loss = F.cross_entropy(logits.double().flatten(0, 1),"),),
        (*_FP64, *_CASTS),
    ),
    Fault(
        "fp64_similarities",
        "contrastive",
        (
            (
                "one, other = F.normalize(one), F.normalize(other)",
                "one, other = F.normalize(one.double()), F.normalize(other.double())",
            ),
        ),
        _FP64,
        ("--batch", "512", "--width", "256"),
    ),
    Fault(
        "fp16_weights",
        "autoencoder",
        (
            ("model = Autoencoder(784, args.width, 32)", "model = Autoencoder(784, args.width, 32).half()"),
            ("images = torch.rand(10_000, 784)", "images = torch.rand(10_000, 784).half()"),
            ("lr=1e-3, fused=True", "lr=1e-5, eps=1e-4, fused=True"),
        ),
        ("dtype.slow_half",),
    ),
    Fault(
        "casts_each_layer",
        "averaged_weights",
        (
            (
                "return x + self.two(F.silu(self.one(self.norm(x))))",
                "weight = self.two.weight.double().float()\n"
                "        return x + F.linear(F.silu(self.one(self.norm(x.double().float()))), weight, self.two.bias)",
            ),
        ),
        _CASTS,
    ),
)
