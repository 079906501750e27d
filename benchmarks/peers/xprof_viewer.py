"""xprof: the JSON that its trace viewer loads."""

import sys

from xprof.convert import raw_to_tool_data

content, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer", {})
if not content:
    sys.exit("no content")
