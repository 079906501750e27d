"""The techniques there are. In a stage they are applied in the order of this table."""

from perfkit.registry import Registry
from perfkit.techniques.technique import Technique, misfit

TECHNIQUES: Registry[type[Technique]] = Registry(
    "technique",
    "perfkit.techniques",
    {
        "tf32": "perfkit.techniques.tf32:Tf32",
        "bf16": "perfkit.techniques.bf16:Bf16",
        "amp": "perfkit.techniques.amp:Amp",
        "channels_last": "perfkit.techniques.channels_last:ChannelsLast",
        "inplace": "perfkit.techniques.inplace:Inplace",
        "flash": "perfkit.techniques.flash:Flash",
        "fused_ce": "perfkit.techniques.fused_ce:FusedCe",
        "distill": "perfkit.techniques.distill:Distill",
        "prune": "perfkit.techniques.prune:Prune",
        "fp8": "perfkit.techniques.fp8:Fp8",
        "qat": "perfkit.techniques.qat:Qat",
        "sparse24": "perfkit.techniques.sparse24:Sparse24",
        "lora": "perfkit.techniques.lora:Lora",
        "qlora": "perfkit.techniques.qlora:Qlora",
        "tp": "perfkit.techniques.tp:Tp",
        "ep": "perfkit.techniques.ep:Ep",
        "ckpt": "perfkit.techniques.ckpt:Ckpt",
        "compile": "perfkit.techniques.compile:Compile",
        "ddp": "perfkit.techniques.ddp:Ddp",
        "zero1": "perfkit.techniques.zero1:Zero1",
        "zero2": "perfkit.techniques.zero23:Zero2",
        "zero3": "perfkit.techniques.zero23:Zero3",
        "hsdp": "perfkit.techniques.hsdp:Hsdp",
        "compress": "perfkit.techniques.compress:Compress",
        "offload": "perfkit.techniques.offload:Offload",
        "accum": "perfkit.techniques.accum:Accum",
        "batch": "perfkit.techniques.batch:Batch",
        "seq": "perfkit.techniques.seq:Seq",
        "data": "perfkit.techniques.data:Data",
        "optim": "perfkit.techniques.optim:Optim",
        "optim_in_backward": "perfkit.techniques.optim_in_backward:OptimInBackward",
        "engine": "perfkit.techniques.engine:Engine",
    },
    misfit,
)
