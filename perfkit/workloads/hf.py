"""`hf:CONFIG`: any Transformers architecture with random weights, from a local config; nothing is downloaded.

CONFIG is the path of a config.json, the folder that holds one, or the name of a config class such as `LlamaConfig`.
Dropout is switched off unless it is given, so that the losses of variants can be compared.
"""

import copy
import importlib.util
import inspect
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError, make_unknown_name_error
from perfkit.core.spec import ParamValue, convert_params
from perfkit.workloads.hf_config import MISSING, import_transformers, load_config
from perfkit.workloads.hf_linear_loss import compute_linear_loss
from perfkit.workloads.hf_tasks import TASKS, HeadTask, find_heads
from perfkit.workloads.parameters import Count, Parameters
from perfkit.workloads.workload import TensorParallelSplit, Workload, make_adamw

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

AUTO = "auto"
DEFAULT_SEQ_LEN = 128  # short enough for a CPU


class HuggingFace(Parameters):
    """Parameters of `hf:CONFIG`. Any other `key=value` overrides the config's attribute of that name."""

    usage: ClassVar[str] = "hf:CONFIG"
    summary: ClassVar[str] = (
        "any Transformers architecture with random weights, from a local config.json or a config class; "
        "any other key=value sets an attribute of the config"
    )
    on_gpu: ClassVar = {"batch_size": 8}
    blocks_parameter: ClassVar[str] = "num_hidden_layers"

    config: str
    task: Annotated[str, msgspec.Meta(title="|".join((AUTO, *TASKS)))] = AUTO
    batch_size: Annotated[Count, msgspec.Meta(title="integer")] = 2
    seq_len: Annotated[
        Count | None,
        msgspec.Meta(
            title="integer", description=f"tokens per sequence, {DEFAULT_SEQ_LEN} if the model has that many positions"
        ),
    ] = None
    overrides: dict[str, ParamValue] = {}

    @classmethod
    def unavailable(cls) -> str | None:
        return None if importlib.util.find_spec("transformers") else MISSING

    @classmethod
    def parse(cls, argument: str, params: Mapping[str, ParamValue]) -> Self:
        if not argument:
            raise UsageError("hf needs a config; expected hf:path/to/config.json or hf:LlamaConfig")
        own = {key: value for key, value in params.items() if key in ("task", "batch_size", "seq_len")}
        overrides = {key: value for key, value in params.items() if key not in own}
        values: dict[str, Any] = {**own, "config": argument, "overrides": overrides}
        typed: Self = convert_params(cls, "workload", f"hf:{argument}", values)
        return typed

    def count_blocks(self) -> int | None:
        blocks = getattr(load_config(self.config, self.overrides), self.blocks_parameter, None)
        return blocks if isinstance(blocks, int) else None

    def build(self) -> Workload:
        config = load_config(self.config, self.overrides)
        task_name, model_class = _choose_head(config, self.task)
        task = TASKS[task_name]
        seq_len = self._resolve_sequence_length(config, task)
        _prepare_config(config, self.overrides, task_name)
        tokens = " + ".join([str(seq_len)] * task.sequences)
        size = f"{self.batch_size} x {tokens} tokens" if task.text else f"{self.batch_size} images"
        return Workload(
            name=f"hf {model_class}",
            unit="tokens" if task.per_token else "samples",
            units_per_batch=self.batch_size * (task.sequences * seq_len if task.per_token else 1),
            build_model=partial(_build_model, task.auto_class, config),
            build_optimizer=make_adamw,
            make_batch=lambda generator: task.make_batch(generator, config, self.batch_size, seq_len),
            blocks=find_blocks,
            use_sdpa=use_sdpa,
            linear_loss=compute_linear_loss if task_name == "causal-lm" else None,
            tensor_parallel_plan=_plan_tensor_parallel,
            expert_parallel=find_experts,
            description=f"{model_class} from {self.config}, {task_name}, batch {size}"
            + (", without the cache of use_cache=true" if self.overrides.get("use_cache") else ""),
        )

    def _resolve_sequence_length(self, config: Any, task: HeadTask) -> int:
        """The given length, or the default within the architecture's positions; 0 for images."""
        if not task.text:
            if self.seq_len is not None:
                raise UsageError("hf: seq_len does not apply to images; give image_size where the config has one")
            return 0
        limit = getattr(config.get_text_config(), "max_position_embeddings", None)
        if self.seq_len is None:
            return min(DEFAULT_SEQ_LEN, limit or DEFAULT_SEQ_LEN)
        if limit is not None and self.seq_len > limit:
            raise UsageError(
                f"hf: seq_len {self.seq_len} exceeds the {limit} positions of {type(config).__name__}; also "
                f"give max_position_embeddings={self.seq_len}"
            )
        return self.seq_len


def find_blocks(model: nn.Module) -> tuple[str, ...]:
    """Names of the repeated blocks: of a transformer its layers, of an encoder-decoder those of both."""
    if not model.config.is_encoder_decoder:  # type: ignore[union-attr]
        return find_longest_list(model)
    names = {id(module): name for name, module in model.named_modules()}
    parts = (model.get_encoder(), model.get_decoder())  # type: ignore[operator]
    return tuple(f"{names[id(part)]}.{block}" for part in parts for block in find_longest_list(part))


def find_longest_list(model: nn.Module) -> tuple[str, ...]:
    """The entries of the longest `nn.ModuleList` that is not nested in another: experts or heads of a layer do not
    count."""
    outermost: dict[str, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and not any(name.startswith(f"{outer}.") for outer in outermost):
            outermost[name] = len(module)
    if not outermost:
        return ()
    name = max(outermost, key=lambda key: outermost[key])
    return tuple(f"{name}.{index}" for index in range(outermost[name]))


def find_experts(model: nn.Module) -> tuple[str, ...]:
    """Names of the modules that hold a layer's experts: Transformers calls all of them in one way."""
    return tuple(
        name
        for name, module in model.named_modules()
        if "top_k_index" in inspect.signature(inspect.unwrap(type(module).forward)).parameters
    )


def use_sdpa(model: nn.Module) -> None:
    """Switch to Transformers' `sdpa` attention; `UnavailableError` where the architecture has none."""
    try:
        model.set_attn_implementation("sdpa")  # type: ignore[operator]
    except ValueError as error:
        raise UnavailableError(f"{type(model).__name__}: {error}") from error
    if model.config._attn_implementation != "sdpa":  # type: ignore[union-attr]  # it only warns where it cannot switch
        raise UnavailableError(f"{type(model).__name__} cannot change its attention after it is built")


def _plan_tensor_parallel(model: nn.Module, split: TensorParallelSplit) -> "dict[str, ParallelStyle]":
    from perfkit.workloads.hf_tensor_parallel import split_by_model_plan  # imports what other runs do not need

    return split_by_model_plan(model, split)


def _choose_head(config: Any, wanted: str) -> tuple[str, str]:
    """Choose the task and the model class: the requested one, else the config's, else the first available."""
    if wanted not in (*TASKS, AUTO):
        raise make_unknown_name_error("task of hf", wanted, [*TASKS, AUTO])
    available = find_heads(config)
    if not available:
        raise UsageError(f"hf: {type(config).__name__} has none of the supported heads: {', '.join(TASKS)}")
    if wanted != AUTO:
        if wanted not in available:
            raise UsageError(f"hf: {type(config).__name__} has no head for {wanted}, only for {', '.join(available)}")
        return wanted, available[wanted][0]
    for task, classes in available.items():
        if set(config.architectures or ()) & set(classes):
            return task, classes[0]
    task = next(iter(available))
    return task, available[task][0]


def _prepare_config(config: Any, overrides: Mapping[str, ParamValue], task_name: str) -> None:
    """Make the config one to train and compare with: no dropout, no cache, a label and a padding token."""
    for part in (config, config.get_text_config()):
        for key, value in vars(part).items():
            if isinstance(value, float) and "drop" in key and key not in overrides:
                setattr(part, key, 0.0)
    if config.is_encoder_decoder:  # from these the decoder's inputs are made
        if config.pad_token_id is None:
            config.pad_token_id = 0
        if getattr(config, "decoder_start_token_id", None) is None:  # not every version of T5Config has it
            config.decoder_start_token_id = config.pad_token_id
    for part in (config, config.get_text_config()):
        if hasattr(part, "use_cache"):
            part.use_cache = (
                False  # a cache of keys and values serves generation; recomputed blocks would fill it twice
            )
    if task_name.endswith("classification") and config.num_labels < 2:
        raise UsageError("hf: num_labels must be at least 2, or there is nothing to predict")
    if task_name == "sequence-classification":
        config.problem_type = "single_label_classification"
        if config.pad_token_id is None:  # decoders find the end of a sequence by it
            config.pad_token_id = config.get_text_config().vocab_size - 1


def _build_model(auto_class: str, config: Any) -> nn.Module:
    auto = getattr(import_transformers(), auto_class)
    model: nn.Module = auto.from_config(copy.deepcopy(config), attn_implementation="eager")
    return model.float().train()
