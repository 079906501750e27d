"""What an option may name as another environment."""

import pytest

from perfkit.check.environments.named_environment import NamedEnvironment, parse_environment, parse_variables
from perfkit.core.errors import UsageError


def test_a_virtual_environment_is_named_by_its_folder(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert parse_environment(str(tmp_path)).interpreter == tmp_path / "bin" / "python"


def test_a_file_is_an_interpreter_if_it_can_be_executed(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("torch==2.14.1\n")
    assert parse_environment(str(file)) == NamedEnvironment(str(file), file=file)
    file.chmod(0o755)
    assert parse_environment(str(file)) == NamedEnvironment(str(file), interpreter=file)


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("torch==2.14.1", ("torch==2.14.1",)),
        ("torch==2.14.1 numpy<2", ("torch==2.14.1", "numpy<2")),
        ("torchao[x]>=0.18", ("torchao[x]>=0.18",)),
        ("pkg@git+https://example.org/a.git@main", ("pkg@git+https://example.org/a.git@main",)),
    ],
)
def test_requirements(text, requirements):
    assert parse_environment(text) == NamedEnvironment(text, requirements=requirements)


@pytest.mark.parametrize("text", ["", "torch", "runs/none", "torch==2.14.1 numpy", "--index-url=https://example.org"])
def test_anything_else_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "..")
    with pytest.raises(UsageError) as raised:
        parse_environment(text or "nothing here")
    assert raised.value.id == "usage.no_file"


def test_a_folder_without_an_interpreter_is_refused(tmp_path):
    with pytest.raises(UsageError) as raised:
        parse_environment(str(tmp_path))
    assert raised.value.id == "usage.no_file"


def test_variables_are_set_or_removed():
    assert parse_variables(("A=1", "B=", "C", "D=x=y")) == {"A": "1", "B": "", "C": None, "D": "x=y"}
    with pytest.raises(UsageError):
        parse_variables(("=1",))
