"""Faults of copied and moved tensors."""

from benchmarks.tune.fault import Fault

_COPIES = ("copy.materialized",)

FAULTS = (
    Fault(
        "layouts_back_and_forth",
        "unet",
        (
            ("masks = torch.randint", "order = torch.contiguous_format\n    masks = torch.randint"),
            (
                "first = self.down1(x)\n        second = self.down2(F.max_pool2d(first, 2))",
                "first = self.down1(x).contiguous(memory_format=torch.contiguous_format)\n"
                "        second = self.down2(F.max_pool2d(first, 2).contiguous(memory_format=torch.channels_last))\n"
                "        second = second.contiguous(memory_format=torch.contiguous_format)",
            ),
        ),
        ("convolution.transposes", *_COPIES),
    ),
    Fault(
        "cat_in_loop",
        "autoencoder",
        (
            (
                "x = images[torch.randint(0, len(images), (args.batch,))]",
                "x = images[:0]\n"
                "        for index in torch.randint(0, len(images), (args.batch,)).tolist():\n"
                "            x = torch.cat((x, images[index : index + 1]))",
            ),
        ),
        _COPIES,
        ("--batch", "512"),
    ),
    Fault(
        "whole_table_copied",
        "autoencoder",
        (
            (
                "x = images[torch.randint(0, len(images), (args.batch,))]",
                "x = images.clone()[torch.randint(0, len(images), (args.batch,))]",
            ),
        ),
        _COPIES,
    ),
    Fault(
        "transposed_copies",
        "denoising",
        (
            (
                "x = self.first(x) + self.levels(level).unsqueeze(-1)",
                "x = self.first(x) + self.levels(level).unsqueeze(-1)\n        x = x.transpose(1, 2).contiguous()",
            ),
            (
                "x = x + F.silu(layer(x))",
                "x = x + F.silu(layer(x.transpose(1, 2).contiguous())).transpose(1, 2).contiguous()",
            ),
            ("return self.last(x)", "return self.last(x.transpose(1, 2).contiguous())"),
        ),
        _COPIES,
        ("--width", "16", "--length", "512"),
    ),
)
