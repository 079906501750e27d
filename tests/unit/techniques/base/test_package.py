"""What is said of a package that is missing, and of one that this torch is too old for."""

import pytest
import torch

from perfkit.techniques.base.package import TORCHAO, Package, explain_missing_package
from perfkit.techniques.base.technique import classify_inability, explain_inability
from perfkit.techniques.precision.fp8 import Fp8


def test_nothing_is_said_of_a_package_that_is_there_and_of_none() -> None:
    assert explain_missing_package(None) == ""
    assert explain_missing_package(Package("pytest", "pytest")) == ""


def test_a_missing_package_is_named_as_pip_knows_it() -> None:
    assert explain_missing_package(Package("no_such_module", "no-such-package")).endswith("pip install no-such-package")


def test_an_older_torch_than_a_package_imports_from_skips_its_techniques(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = TORCHAO.imports
    assert feature is not None
    monkeypatch.setattr("perfkit.techniques.base.package.find_spec", lambda name: None)
    monkeypatch.delattr(torch.nn.functional, feature.name, raising=False)
    reason = explain_inability(Fp8(), torch.device("cpu"))
    assert reason is not None
    assert reason.startswith("torchao ")
    assert "torch 2.10 or newer" in reason
    assert f"torch {torch.__version__} " in reason
    assert classify_inability(Fp8()) == "skip.package"
