"""How many bytes of a page the slices of a timeline take.

    python -m benchmarks.timeline_bytes TRACE...

Of each trace: the page, and of its first step the slices recorded, those written, kernels merged with others, and the
bytes of a written slice, compressed, with the texts of all.
"""

import argparse
import gzip
from pathlib import Path

from perfkit.analysis.model.timeline import STREAM
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.timeline.lane_columns import unpack_lane
from perfkit.analysis.timeline.step_packing import pack_step
from perfkit_reports.render.html import render
from perfkit_reports.subjects.trace import build_document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    for path in parser.parse_args().traces:
        analysis = analyze_traces([str(path)], jobs=1)
        page = len(render(build_document(analysis)).encode())
        step = analysis.traces[0].timelines[0]
        written = sum(len(unpack_lane(lane)) for lane in step.lanes)
        merged = sum(lane.slices - len(unpack_lane(lane)) for lane in step.lanes if lane.kind == STREAM)
        size = len(gzip.compress(pack_step(step)))
        print(
            f"{path.name}: page {page / 1e6:.2f} MB; {step.slices:,} slices recorded, {written:,} written, "
            f"{merged:,} kernels merged; {size / max(written, 1):.1f} bytes a written slice"
        )


if __name__ == "__main__":
    main()
