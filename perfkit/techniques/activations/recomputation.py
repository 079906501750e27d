"""Variants of `ckpt` ordered by recomputation, from none to every block."""

from collections.abc import Sequence

from perfkit.core.spec import ParamValue, TechniqueSpec
from perfkit.techniques.activations.ckpt import Ckpt

Techniques = tuple[TechniqueSpec, ...]

# Matmul results are kept in all blocks before any block is recomputed whole: the ops between them have few FLOPs.
_MODES = ("selective", "full")


def list_rungs(techniques: Sequence[TechniqueSpec], blocks: int) -> tuple[tuple[Techniques, ...], ...]:
    """A combination with `ckpt:fit`, with increasing recomputation of the blocks in its place.

    First none; then for each mode a series that checkpoints one more block each time, with a falling peak. A given mode
    is the only one.
    """
    asked = next(spec for spec in techniques if spec.name == Ckpt.name)
    params = {key: value for key, value in asked.params.items() if key != "fit"}
    modes = (str(params["mode"]),) if "mode" in params else _MODES
    without = tuple(spec for spec in techniques if spec is not asked)
    counts = range(1, blocks + 1)
    return (
        (without,),
        *(
            tuple(_replace_params(techniques, asked, _build_params(params, mode, count, blocks)) for count in counts)
            for mode in modes
        ),
    )


def _replace_params(
    techniques: Sequence[TechniqueSpec], asked: TechniqueSpec, params: dict[str, ParamValue]
) -> Techniques:
    replacement = TechniqueSpec(name=Ckpt.name, params=params)
    return tuple(replacement if spec is asked else spec for spec in techniques)


def _build_params(asked: dict[str, ParamValue], mode: str, count: int, blocks: int) -> dict[str, ParamValue]:
    """Build parameters without defaults, so that the variant has its usual name."""
    params = {"mode": mode, **asked}
    if mode == Ckpt().mode:
        del params["mode"]
    return params if count == blocks else {**params, "blocks": count}
