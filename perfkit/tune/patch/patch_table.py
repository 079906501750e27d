"""How each technique is written into a program: an edit of its source where one is safe, else what to do by hand."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from perfkit.core.spec import ParamValue
from perfkit.tune.patch.autocast_edit import edit_autocast
from perfkit.tune.patch.compile_edit import edit_compile
from perfkit.tune.patch.model_edits import add_model_statement, add_torch_statement
from perfkit.tune.patch.optimizer_edit import edit_optimizer

Params = Mapping[str, ParamValue]
# Of a source, a technique's parameters and torch's device type: the new source, the same where nothing was recognized.
Edit = Callable[[str, Params, str], str]


class PatchRule(NamedTuple):
    """`edit` writes a technique into a source, None where no edit is safe; `by_hand` is the instruction instead."""

    edit: Edit | None
    by_hand: str


def _edit_amp(source: str, params: Params, device: str) -> str:
    # fp16 needs a gradient scaler around backward and step.
    return edit_autocast(source, device) if params.get("dtype", "bf16") == "bf16" else source


def _edit_optim(source: str, params: Params, _: str) -> str:
    use = str(params.get("use", "fused"))
    return edit_optimizer(source, use) if use in ("fused", "foreach") else source


def _edit_compile(source: str, params: Params, _: str) -> str:
    if params.get("scope", "model") != "model":
        return source
    options = {
        "mode": params.get("mode", "default"),
        "dynamic": params.get("dynamic"),
        "fullgraph": params.get("fullgraph"),
    }
    given = [f"{name}={value!r}" for name, value in options.items() if value not in (None, "default", False)]
    return edit_compile(source, given)


def _edit_channels_last(source: str, *_: object) -> str:
    return add_model_statement(source, "{model}.to(memory_format=torch.channels_last)")


def _edit_tf32(source: str, *_: object) -> str:
    return add_torch_statement(source, 'torch.set_float32_matmul_precision("high")')


PATCH_RULES: dict[str, PatchRule] = {
    "amp": PatchRule(
        _edit_amp,
        "run the forward pass and the loss under torch.autocast(DEVICE, dtype=torch.bfloat16); "
        "with float16 also scale the loss by torch.amp.GradScaler",
    ),
    "tf32": PatchRule(_edit_tf32, 'call torch.set_float32_matmul_precision("high") before training'),
    "optim": PatchRule(
        _edit_optim, "give the optimizer this implementation, such as torch.optim.AdamW(..., fused=True)"
    ),
    "compile": PatchRule(_edit_compile, "call model.compile() before the first step, on each block with scope=block"),
    "channels_last": PatchRule(
        _edit_channels_last, "call model.to(memory_format=torch.channels_last), and the same on batches of images"
    ),
    "flash": PatchRule(
        None,
        "compute attention by torch.nn.functional.scaled_dot_product_attention; for Transformers models, "
        'attn_implementation="sdpa"',
    ),
    "ckpt": PatchRule(
        None,
        "call each block through torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False); for Transformers "
        "models, model.gradient_checkpointing_enable()",
    ),
    "accum": PatchRule(
        None, "call backward on each part of the batch, with the loss divided by their number, then step"
    ),
    "batch": PatchRule(None, "change the batch size of the DataLoader, and the learning rate with it"),
    "inplace": PatchRule(
        None, "give activation functions and dropout inplace=True, such as torch.nn.ReLU(inplace=True)"
    ),
    "optim_in_backward": PatchRule(
        None, "step each parameter in tensor.register_post_accumulate_grad_hook, and free its gradient there"
    ),
}


def get_instruction(name: str) -> str:
    """What to do by hand for a technique without a rule of its own, or whose edit found no place."""
    rule = PATCH_RULES.get(name)
    return rule.by_hand if rule is not None else "no edit is known; perfkit techniques describes it"
