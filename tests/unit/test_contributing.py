"""The examples in CONTRIBUTING.md are changes that can be made: each still applies to the files as they are."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_examples_of_how_to_add_something_still_apply() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    examples = re.findall(r"```diff\n(.*?)```", text, flags=re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        command = ["git", "apply", "--check", "--unidiff-zero", "-"]
        done = subprocess.run(command, input=example, text=True, capture_output=True, cwd=ROOT, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{example}"
