"""The techniques there are. In a stage they are applied in the order of this table."""

from perfkit.registry import Registry
from perfkit.techniques.technique import Technique, misfit

TECHNIQUES: Registry[type[Technique]] = Registry(
    "technique",
    "perfkit.techniques",
    {
        "amp": "perfkit.techniques.amp:Amp",
        "flash": "perfkit.techniques.flash:Flash",
        "ckpt": "perfkit.techniques.ckpt:Ckpt",
        "compile": "perfkit.techniques.compile:Compile",
        "ddp": "perfkit.techniques.ddp:Ddp",
        "zero1": "perfkit.techniques.zero1:Zero1",
        "zero2": "perfkit.techniques.zero23:Zero2",
        "zero3": "perfkit.techniques.zero23:Zero3",
        "offload": "perfkit.techniques.offload:Offload",
    },
    misfit,
)
