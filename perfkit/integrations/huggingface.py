"""Hugging Face Transformers: `Trainer(callbacks=[PerfkitCallback("runs/x")])`."""

from pathlib import Path
from typing import Any

from perfkit.core.optional_deps import explain_import_error
from perfkit.integrations.attachment import Attachment, ProfileContext, unwrap_optimizer

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ModuleNotFoundError as error:
    raise explain_import_error("transformers", "'perfkit[hf]' accelerate", error) from None


class PerfkitCallback(ProfileContext, TrainerCallback):  # type: ignore[misc, unused-ignore]  # untyped without transformers
    """Profiles `trainer.train()`: a step is one update, over all batches that it accumulates.

    Steps with an evaluation are left out of the times; saving a checkpoint counts, as does logging. The samples of a
    step are those of this rank, from the arguments: `per_device_train_batch_size` times `gradient_accumulation_steps`.

    The Trainer does not report exceptions to callbacks: put the training into `with callback:`, or the profile is
    finished when the process exits or trains again.

    Args:
        folder, profile_options: as for `perfkit.profile`.
    """

    def __init__(self, folder: str | Path | None = None, **profile_options: Any) -> None:
        self._attachment = Attachment(folder, profile_options)
        self._in_samples = profile_options.get("unit", "samples") == "samples"

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: Any = None,
        optimizer: Any = None,
        **kwargs: Any,
    ) -> None:
        self._attachment.begin(
            lambda: {
                # What is compiled is called through a wrapper, which the callback is not given: let it be looked for.
                "model": None if args.torch_compile else model,
                "optimizer": unwrap_optimizer(optimizer),
                "units_per_step": _count_step_samples(args, state) if self._in_samples else None,
            },
            by_hand=True,
        )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._attachment.step()

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._attachment.evaluated()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._attachment.end()


def _count_step_samples(args: TrainingArguments, state: TrainerState) -> float:
    """Samples in one step of this rank. The state knows what `auto_find_batch_size` has found."""
    batch_size: int = state.train_batch_size or args.train_batch_size
    split = getattr(args.accelerator_config, "split_batches", False)
    of_rank = batch_size / args.world_size if split else batch_size
    return of_rank * args.gradient_accumulation_steps
