import select
import subprocess
import sys
from pathlib import Path

import pytest

FORGETFUL = """
import gc, sys
from pathlib import Path
from perfkit.measure.launch.channel import open_progress_channel
open_progress_channel(Path(sys.argv[1]))
gc.collect()
print("printed", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_the_channel_is_open_until_the_process_ends(tmp_path: Path) -> None:
    log = tmp_path / "rank1" / "output.log"
    process = subprocess.Popen([sys.executable, "-c", FORGETFUL, log], stdin=-1, stdout=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    while not log.exists() or not log.read_text():
        assert process.poll() is None
    assert not select.select([process.stdout], [], [], 0.1)[0]
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait() == 0
    assert log.read_text() == "printed\n"
