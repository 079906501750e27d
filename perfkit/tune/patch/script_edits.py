"""The edits of a training script: what each writes, which findings and techniques it answers, and what its losses may
differ by."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from perfkit.core.spec import parse_variants
from perfkit.techniques.base.technique import LOSSLESS
from perfkit.techniques.compose import compose_techniques
from perfkit.tune.model.tune_result import SwitchedTechnique
from perfkit.tune.patch.attention_edit import edit_attention
from perfkit.tune.patch.checkpoint_edit import edit_checkpoints
from perfkit.tune.patch.leftover_edit import edit_leftovers
from perfkit.tune.patch.loader_edit import edit_loaders
from perfkit.tune.patch.patch_table import PATCH_RULES
from perfkit.tune.patch.recompute_edit import edit_recomputation
from perfkit.tune.patch.zero_grad_edit import edit_zero_grad


class EditPlace(NamedTuple):
    """Where a script runs: torch's device type, the cores that workers may use, whether the device computes in bf16 and
    in TF32, and whether batches are copied to it (`copies`)."""

    device: str
    cores: int
    has_bf16: bool = True
    has_tf32: bool = False
    copies: bool = False


class ScriptEdit(NamedTuple):
    """One edit. `write` gives the new text of a source, the same where it recognizes nothing.

    `technique` is perfkit's that does the same, "" where none does; findings that name it are answered by the edit, and
    those in `findings`. With `exact` no result depends on it: it counts where losses cannot be seen, too. `saves` is
    what it is for. `summary` and `costs` are those of the technique where it has one.
    """

    name: str
    technique: str
    write: Callable[[str, EditPlace], str]
    findings: tuple[str, ...] = ()
    exact: bool = False
    saves: Literal["time", "memory"] = "time"
    summary: str = ""
    costs: str = ""


def _write_technique(label: str, source: str, place: EditPlace) -> str:
    (spec,) = parse_variants(label)[0]
    rule = PATCH_RULES[spec.name]
    assert rule.edit is not None, "the table has only those with an edit"
    return rule.edit(source, spec.params, place.device)


def _write_autocast(source: str, place: EditPlace) -> str:
    return _write_technique("amp", source, place) if place.has_bf16 else source


def _write_channels_last(source: str, place: EditPlace) -> str:
    return _write_technique("channels_last", source, place) if "Conv2d" in source or "resnet" in source else source


def _write_tf32(source: str, place: EditPlace) -> str:
    if not place.has_tf32 or "set_float32_matmul_precision" in source or "allow_tf32" in source:
        return source
    return _write_technique("tf32", source, place)


def _write_compile(source: str, place: EditPlace) -> str:
    return source if "compile(" in source.replace("re.compile(", "") else _write_technique("compile", source, place)


def _write_workers(source: str, place: EditPlace) -> str:
    workers = max(1, min(place.cores // 2, _MOST_WORKERS))
    return edit_loaders(source, workers, pinned=place.copies)


_MOST_WORKERS = 8

SCRIPT_EDITS: tuple[ScriptEdit, ...] = (
    ScriptEdit(
        "leftovers",
        "",
        lambda source, _: edit_leftovers(source),
        findings=("loop.garbage_collection", "autograd.anomaly_detection", "sync.other"),
        exact=True,
        summary="leave out what only debugging needs: gc.collect, waits for the device, anomaly detection",
        costs="nothing; add it again to debug",
    ),
    ScriptEdit(
        "no_ckpt",
        "",
        lambda source, _: edit_recomputation(source),
        findings=("checkpointing.recompute",),
        exact=True,
        summary="keep the activations of checkpointed blocks in place of computing them twice",
        costs="memory for these activations",
    ),
    ScriptEdit("data", "data", _write_workers, findings=("data.starved",), exact=True),
    ScriptEdit(
        "optim:use=fused",
        "optim",
        lambda source, place: _write_technique("optim:use=fused", source, place),
        findings=("optimizer.unfused",),
    ),
    ScriptEdit("amp", "amp", _write_autocast),
    ScriptEdit("flash", "flash", lambda source, _: edit_attention(source)),
    ScriptEdit("compile", "compile", _write_compile),
    ScriptEdit("channels_last", "channels_last", _write_channels_last),
    ScriptEdit("tf32", "tf32", _write_tf32),
    ScriptEdit(
        "zero_grad",
        "",
        lambda source, _: edit_zero_grad(source),
        exact=True,
        summary="drop gradients in place of writing zeros",
        costs="nothing",
    ),
    ScriptEdit("ckpt", "ckpt", lambda source, _: edit_checkpoints(source), saves="memory"),
)

EDITS_BY_NAME = {edit.name: edit for edit in SCRIPT_EDITS}


def get_tolerance(edit: ScriptEdit) -> float | None:
    """The largest relative difference of losses that the edit may make; None if they cannot be compared."""
    if not edit.technique:
        return LOSSLESS.relative
    (technique,) = compose_techniques(parse_variants(edit.name)[0])
    return technique.parity().relative


def describe_edit(name: str) -> SwitchedTechnique:
    """What an edit does, and what it costs."""
    edit = EDITS_BY_NAME[name]
    if not edit.technique:
        return SwitchedTechnique(label=name, summary=edit.summary, costs=edit.costs)
    (technique,) = compose_techniques(parse_variants(name)[0])
    return SwitchedTechnique(label=name, summary=technique.summary, costs=technique.costs)
