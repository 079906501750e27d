import subprocess
import sys
from collections.abc import Callable

import pytest

from perfkit.attach.host.logger import Logger
from perfkit.core.errors import UnavailableError
from perfkit.integrations.import_library import import_library
from perfkit.integrations.mlflow import MlflowLogger
from perfkit.integrations.prometheus import PrometheusTextLogger
from perfkit.integrations.tensorboard import TensorBoardLogger
from perfkit.integrations.wandb import WandbLogger


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("tensorboard", "tensorboard", lambda: TensorBoardLogger("x")),
        ("wandb", "wandb", WandbLogger),
        ("mlflow", "mlflow", MlflowLogger),
        ("prometheus_client", "prometheus", lambda: PrometheusTextLogger("x.prom")),
    ],
)
def test_a_logger_without_its_library_says_what_to_install(
    package: str, extra: str, make: Callable[[], Logger], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package or "utils.tensorboard" in name]:
        monkeypatch.delitem(sys.modules, name)
    # What an import of a package that is not installed raises, from the import system's own search.
    monkeypatch.setattr(sys, "meta_path", [_Without(package), *sys.meta_path])
    with pytest.raises(UnavailableError, match=rf"needs the package {package}: pip install 'perfkit\[{extra}\]'"):
        make()


class _Without:
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_library_that_fails_for_another_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match="'nowhere'"):
        import_library("nowhere", package="wandb", extra="wandb")


@pytest.mark.cold
@pytest.mark.slow
def test_no_library_is_imported_before_its_logger_is_made() -> None:
    code = (
        "import sys\n"
        "import perfkit.integrations.logger_table\n"
        "import perfkit.integrations.wandb, perfkit.integrations.mlflow, perfkit.integrations.prometheus\n"
        "import perfkit.integrations.tensorboard\n"
        "print(*sorted({'wandb', 'mlflow', 'prometheus_client', 'tensorboard'} & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []
