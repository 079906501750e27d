"""Options that commands with a report share."""

from pathlib import Path

import click
from click.testing import CliRunner

from perfkit_cli.options.report_options import add_out_option, add_static_option


def test_a_report_goes_to_a_folder_and_not_to_a_file(tmp_path: Path) -> None:
    given: list[tuple[Path | None, bool]] = []

    @click.command()
    @add_out_option("somewhere/NAME")
    @add_static_option
    def command(out: Path | None, static: bool) -> None:
        given.append((out, static))

    file = tmp_path / "file"
    file.write_text("")
    assert CliRunner().invoke(command, []).exit_code == 0
    assert CliRunner().invoke(command, ["--out", str(tmp_path)]).exit_code == 0
    assert given == [(None, False), (tmp_path, False)]
    assert CliRunner().invoke(command, ["--out", str(file)]).exit_code == 2
    assert "somewhere/NAME" in CliRunner().invoke(command, ["--help"]).output
