"""torch's own `torch._inductor.analysis.profile_analysis`, which reads plain JSON only."""

import gzip
import shutil
import sys
import tempfile

from torch._inductor.analysis.profile_analysis import JsonProfile

with tempfile.NamedTemporaryFile(suffix=".json") as plain:
    with gzip.open(sys.argv[1]) as packed:
        shutil.copyfileobj(packed, plain)
    plain.flush()
    profile = JsonProfile(plain.name, dtype="bfloat16")
    profile.augment_trace()
    profile.report()
