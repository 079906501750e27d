"""Advice for a trace without a roofline, shown by findings and where the roofline would be."""

from perfkit.analysis.model.trace import RankTrace
from perfkit.core.note import list_texts
from perfkit.devices.accelerator import is_cpu


def advise_on_ceilings(trace: RankTrace) -> str:
    """Advise on a device without ceilings."""
    advice = "" if trace.ceilings is None else "; ".join(list_texts(trace.ceilings.notes))
    what = (
        "run perfkit calibrate here"
        if is_cpu(trace.device)
        else "name the device with --device (see `perfkit devices`)"
    )
    text = (advice or what).rstrip(".")
    return f"{text[0].upper()}{text[1:]}."
