import subprocess
import sys

import pytest

from perfkit.errors import UnavailableError
from perfkit.integrations.missing import missing

WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without:
    def find_spec(name, path=None, target=None):
        return None if name in {absent!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
import perfkit.errors
try:
    import perfkit.integrations.{module}
except perfkit.errors.PerfkitError as error:
    print(error)
"""


def test_another_module_that_is_missing_is_not_taken_for_the_package() -> None:
    error = ModuleNotFoundError("No module named 'regex'", name="regex")
    assert missing("transformers", "transformers", error) is error


def test_the_message_says_what_to_install() -> None:
    error = ModuleNotFoundError("No module named 'transformers'", name="transformers")
    found = missing("transformers", "'perfkit[hf]'", error)
    assert isinstance(found, UnavailableError)
    assert str(found) == "needs the package transformers: pip install 'perfkit[hf]'"


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
