"""Integrations without the package that they are for."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {absent!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
import perfkit.core.errors
try:
    import perfkit.integrations.{module}
except perfkit.core.errors.PerfkitError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "absent", "install"),
    [
        ("huggingface", ("transformers",), "pip install 'perfkit[hf]' accelerate"),
        ("accelerate", ("accelerate",), "pip install 'perfkit[accelerate]'"),
        ("lightning", ("lightning", "pytorch_lightning"), "pip install 'perfkit[lightning]'"),
    ],
)
def test_an_integration_without_its_package_says_what_to_install(
    module: str, absent: tuple[str, ...], install: str
) -> None:
    code = WITHOUT.format(absent=absent, module=module)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert install in ended.stdout, ended.stderr
