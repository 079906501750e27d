"""The heads a Transformers model can be trained with, and the batches each needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perfkit.workloads.data import synthetic_data
from perfkit.workloads.workload import Batch

MASKED_SHARE = 0.15  # BERT (arXiv 1810.04805), section 3.1


MakeBatch = Callable[[torch.Generator, Any, int, int], Batch]


@dataclass(frozen=True)
class HeadTask:
    """A head: the auto class that builds it, the mapping of supported configs, and its batches.

    `make_batch` takes the generator, the config, the batch size and the sequence length (0 for images). `text` says
    that inputs are tokens, `per_token` that the loss is per token; `sequences` is the number per sample, all of whose
    tokens are counted. `encoder_decoder` limits it to such architectures.
    """

    auto_class: str
    mapping: str
    make_batch: MakeBatch
    text: bool = True
    per_token: bool = False
    sequences: int = 1
    encoder_decoder: bool = False


def _make_causal_lm_batch(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    ids = synthetic_data.draw_tokens(generator, batch_size, seq_len, get_vocab_size(config))
    return {"input_ids": ids, "labels": ids.clone()}  # the model shifts the labels itself


def _make_masked_lm_batch(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    mask_id = get_vocab_size(config) - 1
    ids = synthetic_data.draw_tokens(generator, batch_size, seq_len, mask_id)
    order = torch.rand((batch_size, seq_len), generator=generator).argsort(dim=1)
    masked = order < max(1, round(MASKED_SHARE * seq_len))  # the same number in every sequence
    return {"input_ids": ids.masked_fill(masked, mask_id), "labels": ids.masked_fill(~masked, -100)}


def _make_seq2seq_lm_batch(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    """A language in which each word is the next one of the other; no sentence is padded."""
    ids = synthetic_data.draw_tokens(generator, batch_size, seq_len, get_vocab_size(config))
    # The decoder's inputs are the labels, which the model shifts itself.
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": (ids + 1) % get_vocab_size(config)}


def _make_sequence_classification_batch(
    generator: torch.Generator, config: Any, batch_size: int, seq_len: int
) -> Batch:
    """The label decides which part of the vocabulary a sequence is drawn from."""
    part = (get_vocab_size(config) - 1) // config.num_labels  # the last token is left for padding
    labels = torch.randint(config.num_labels, (batch_size,), generator=generator)
    return {
        "input_ids": synthetic_data.draw_tokens(generator, batch_size, seq_len, part) + part * labels[:, None],
        "labels": labels,
    }


def _make_image_classification_batch(generator: torch.Generator, config: Any, batch_size: int, _seq_len: int) -> Batch:
    pixels, labels = synthetic_data.draw_images(
        generator, batch_size, getattr(config, "num_channels", 3), get_image_size(config), config.num_labels
    )
    return {"pixel_values": pixels, "labels": labels}


# In the order of preference for a config that does not name its architecture: an encoder has a causal head as well,
# a decoder no masked one.
TASKS = {
    "masked-lm": HeadTask("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING", _make_masked_lm_batch, per_token=True),
    "causal-lm": HeadTask("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING", _make_causal_lm_batch, per_token=True),
    "image-classification": HeadTask(
        "AutoModelForImageClassification",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
        _make_image_classification_batch,
        text=False,
    ),
    "sequence-classification": HeadTask(
        "AutoModelForSequenceClassification",
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
        _make_sequence_classification_batch,
    ),
    "seq2seq-lm": HeadTask(
        "AutoModelForSeq2SeqLM",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
        _make_seq2seq_lm_batch,
        per_token=True,
        sequences=2,
        encoder_decoder=True,
    ),
}


def find_heads(config: Any) -> dict[str, tuple[str, ...]]:
    """The tasks a config has a head for, with the model classes of each; the auto class builds the first."""
    from transformers.models.auto import modeling_auto

    by_task = {}
    for name, task in TASKS.items():
        mapping = getattr(modeling_auto, task.mapping)
        if type(config) in mapping and task.encoder_decoder == bool(config.is_encoder_decoder):
            classes = mapping[type(config)]
            by_task[name] = tuple(cls.__name__ for cls in (classes if isinstance(classes, tuple) else (classes,)))
    return by_task


def get_vocab_size(config: Any) -> int:
    """Distinct tokens; the text part's where a config has several."""
    return int(config.get_text_config().vocab_size)


def get_image_size(config: Any) -> int:
    """Height and width in pixels; 224 where the architecture takes any."""
    size = getattr(config, "image_size", None) or 224
    return int(size[0] if isinstance(size, list | tuple) else size)
