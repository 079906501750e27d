"""The heads a Transformers model can be trained with, and the batches each needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perfkit.workloads import synthetic
from perfkit.workloads.workload import Batch

MASKED_SHARE = 0.15  # BERT (arXiv 1810.04805), section 3.1


MakeBatch = Callable[[torch.Generator, Any, int, int], Batch]


@dataclass(frozen=True)
class Task:
    """A head: the auto class that builds it, the mapping that says for which configs, and its batches.

    `make_batch` takes the generator, the config, the batch size and the sequence length (0 for images). `text` says
    whether the inputs are tokens, `per_token` whether the loss is; `sequences` how many a sample has, of all of
    which tokens are counted. `encoder_decoder` is for such architectures and no others.
    """

    auto_class: str
    mapping: str
    make_batch: MakeBatch
    text: bool = True
    per_token: bool = False
    sequences: int = 1
    encoder_decoder: bool = False


def _causal_lm(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    ids = synthetic.tokens(generator, batch_size, seq_len, vocab(config))
    return {"input_ids": ids, "labels": ids.clone()}  # the model shifts the labels itself


def _masked_lm(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    mask_id = vocab(config) - 1
    ids = synthetic.tokens(generator, batch_size, seq_len, mask_id)
    order = torch.rand((batch_size, seq_len), generator=generator).argsort(dim=1)
    masked = order < max(1, round(MASKED_SHARE * seq_len))  # the same number in every sequence
    return {"input_ids": ids.masked_fill(masked, mask_id), "labels": ids.masked_fill(~masked, -100)}


def _seq2seq_lm(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    """A language in which each word is the next one of the other; no sentence is padded."""
    ids = synthetic.tokens(generator, batch_size, seq_len, vocab(config))
    # The decoder's inputs are the labels, which the model shifts itself.
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": (ids + 1) % vocab(config)}


def _sequence_classification(generator: torch.Generator, config: Any, batch_size: int, seq_len: int) -> Batch:
    """The label decides which part of the vocabulary a sequence is drawn from."""
    part = (vocab(config) - 1) // config.num_labels  # the last token is left for padding
    labels = torch.randint(config.num_labels, (batch_size,), generator=generator)
    return {
        "input_ids": synthetic.tokens(generator, batch_size, seq_len, part) + part * labels[:, None],
        "labels": labels,
    }


def _image_classification(generator: torch.Generator, config: Any, batch_size: int, _seq_len: int) -> Batch:
    pixels, labels = synthetic.images(
        generator, batch_size, getattr(config, "num_channels", 3), image_size(config), config.num_labels
    )
    return {"pixel_values": pixels, "labels": labels}


# In the order of preference for a config that does not name its architecture: an encoder has a causal head as well,
# a decoder no masked one.
TASKS = {
    "masked-lm": Task("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING", _masked_lm, per_token=True),
    "causal-lm": Task("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING", _causal_lm, per_token=True),
    "image-classification": Task(
        "AutoModelForImageClassification",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
        _image_classification,
        text=False,
    ),
    "sequence-classification": Task(
        "AutoModelForSequenceClassification",
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
        _sequence_classification,
    ),
    "seq2seq-lm": Task(
        "AutoModelForSeq2SeqLM",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
        _seq2seq_lm,
        per_token=True,
        sequences=2,
        encoder_decoder=True,
    ),
}


def heads(config: Any) -> dict[str, tuple[str, ...]]:
    """The tasks a config has a head for, with the model classes of each; the auto class builds the first."""
    from transformers.models.auto import modeling_auto

    by_task = {}
    for name, task in TASKS.items():
        mapping = getattr(modeling_auto, task.mapping)
        if type(config) in mapping and task.encoder_decoder == bool(config.is_encoder_decoder):
            classes = mapping[type(config)]
            by_task[name] = tuple(cls.__name__ for cls in (classes if isinstance(classes, tuple) else (classes,)))
    return by_task


def vocab(config: Any) -> int:
    """Distinct tokens; the text part's where a config has several."""
    return int(config.get_text_config().vocab_size)


def image_size(config: Any) -> int:
    """Height and width in pixels; 224 where the architecture takes any."""
    size = getattr(config, "image_size", None) or 224
    return int(size[0] if isinstance(size, list | tuple) else size)
