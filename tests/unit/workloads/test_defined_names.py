"""What a file defines is read from its text."""

from pathlib import Path

import pytest

from perfkit.workloads.defined_names import find_defined_names

TEXT = """
import os.path, numpy as np
from math import sqrt as root
LIMIT: int = 3
if LIMIT:
    def inner_if(): local = 1
else:
    class Kept:
        hidden = 2
for step in range(3):
    loss, (a, *rest) = 1, (2, 3)
with open(os.devnull) as file:
    pass
try:
    pass
except ValueError as error:
    pass
async def later(): pass
def sets():
    global from_within
    from_within = 1
model.eval()
print(vars(args), model.modules())
"""


def test_all_that_the_modules_own_code_binds(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    found = find_defined_names(path)
    assert found is not None
    names, functions = found
    expected = "os np root LIMIT inner_if Kept step loss a rest file later sets from_within"
    assert names == set(expected.split())
    assert functions == ("inner_if", "later", "sets")


@pytest.mark.parametrize(
    "line",
    [
        "def (",
        "from x import *",
        "globals()['build'] = 1",
        "exec('def build(): pass')",
        "def __getattr__(name): pass",
        "setattr(module, 'build', 1)",
        "sys.modules[__name__].build = 1",
        "vars()['build'] = 1",
        "module.__dict__['build'] = 1",
    ],
)
def test_a_text_that_does_not_tell(tmp_path: Path, line: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"build_ = 1\n{line}\n")
    assert find_defined_names(path) is None
