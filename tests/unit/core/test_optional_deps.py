from perfkit.core.errors import UnavailableError
from perfkit.core.optional_deps import explain_import_error


def test_another_module_that_is_missing_is_not_taken_for_the_package() -> None:
    error = ModuleNotFoundError("No module named 'regex'", name="regex")
    assert explain_import_error("transformers", "transformers", error) is error


def test_the_message_says_what_to_install() -> None:
    error = ModuleNotFoundError("No module named 'transformers'", name="transformers")
    found = explain_import_error("transformers", "'perfkit[hf]'", error)
    assert isinstance(found, UnavailableError)
    assert "transformers" in str(found)
    assert found.id == "skip.package"
    assert str(found).endswith(" 'perfkit[hf]'")
