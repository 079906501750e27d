"""Silences messages that libraries log when they are imported, about their own builds and code."""

import logging

# Texts in messages, by logger. torchao has extensions for other versions of Python and other GPUs, and registers enums
# in a way that torch no longer needs.
_MESSAGES = {
    "torchao": ("Failed to load ", "Skipping import of cpp extensions "),
    "torch.utils._pytree": (" is an Enum subclass and is now natively supported by torch.compile ",),
}


class _ImportFilter(logging.Filter):
    """Drops messages of the logger of its name that hold one of the texts."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True for a record to keep."""
        message = record.getMessage()
        return not any(text in message for text in _MESSAGES[record.name])


def silence_import_messages() -> None:
    """Drop these messages in this process, and no others; more than one call changes nothing."""
    for name in _MESSAGES:
        logger = logging.getLogger(name)
        if not any(isinstance(known, _ImportFilter) for known in logger.filters):
            logger.addFilter(_ImportFilter(name))
