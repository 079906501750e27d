"""Advice for a trace without a roofline, shown by findings and where the roofline would be."""

from perfkit.analysis.model.trace import RankTrace

RECORD_SHAPES = "Record with torch.profiler.profile(record_shapes=True)."


def advise_on_ceilings(trace: RankTrace) -> str:
    """Advise on a device without ceilings."""
    advice = "" if trace.ceilings is None else "; ".join(trace.ceilings.notes)
    what = (
        "run perfkit calibrate here"
        if trace.device == "cpu"
        else "name the device with --device (see `perfkit devices`)"
    )
    told = (advice or what).rstrip(".")
    return f"{told[0].upper()}{told[1:]}."
