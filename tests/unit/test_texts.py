"""Every text that people see is pinned by the files of `tests/texts`: a change of words is read as their diff."""

from difflib import unified_diff

import pytest

from tests.texts.makers.sentences import read_python_sentences, read_script_strings, read_template_texts
from tests.texts.write_texts import build_texts, list_files

_SHOWN = 40  # lines of the differences


@pytest.mark.slow
def test_the_files_hold_what_is_written_anew() -> None:
    texts, files = build_texts(), list_files()
    changes: list[str] = []
    for name in sorted(texts.keys() | files.keys()):
        before, after = files.get(name, "").splitlines(), texts.get(name, "").splitlines()
        changes += unified_diff(before, after, f"tests/texts/{name}", f"{name} now", lineterm="", n=0)
    if changes:
        shown = "\n".join(changes[:_SHOWN])
        pytest.fail(f"texts have changed: run make texts and review the diff\n{shown}", pytrace=False)


def test_sentences_of_code_have_their_places_for_figures_and_the_class_of_an_error() -> None:
    source = '''
"""A docstring is told to nobody."""
def refuse(given):
    """Neither is this one."""
    assert given, "and this is no text for users"
    raise UsageError(f"--steps {given:.1f}: expected a number" if given else "no steps were given")
    print(f"it took {count(given)} steps")
'''
    assert list(read_python_sentences(source)) == [
        "- UsageError: --steps {given}: expected a number",
        "- UsageError: no steps were given",
        "- it took {count(given)} steps",
    ]


def test_texts_of_templates_and_scripts() -> None:
    template = '<style>p { color: red }</style><p title="Why so">{% if a %}{{ a | b }} of them{% endif %}</p>'
    assert read_template_texts(template) == ["- title: Why so", "- {a | b} of them"]
    script = 'say(`${count} runs are shown`); pick(".a .b"); // never a word of "comments of ours"\n'
    assert list(read_script_strings(script)) == ["- {count} runs are shown"]
