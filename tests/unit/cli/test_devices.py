"""The listing of devices whose peaks are known."""

import json

from click.testing import CliRunner, Result

from perfkit.devices.catalog.catalog import load_catalog
from perfkit_cli.main import commands


def _invoke(*arguments: str) -> Result:
    """As the command line does: a command invoked alone would keep a help option without `-h` for later tests."""
    return CliRunner().invoke(commands, ["devices", *arguments])


def test_every_device_has_a_line() -> None:
    lines = _invoke().output.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [entry.id for entry in load_catalog().devices]
    some = _invoke("h100").output.splitlines()
    assert [line.split()[0] for line in some] == ["id", "h100-sxm", "h100-pcie", "h100-nvl"]
    assert _invoke("no such thing").exit_code == 2


def test_figures_are_dense_and_what_is_not_known_is_a_dash() -> None:
    (line,) = _invoke("h200-sxm").output.splitlines()[1:]
    assert "989 TFLOP/s" in line
    assert "4,800 GB/s" in line
    (line,) = _invoke("t4").output.splitlines()[1:]
    assert line.split()[0] == "t4"
    assert " -  " in line  # no interconnect


def test_units_bear_the_names_of_the_vendors_that_are_listed() -> None:
    both, one = (_invoke(*given).output.splitlines()[0] for given in ([], ["mi300x"]))
    assert "Tensor Core / MFMA" in both
    assert "16-bit MFMA  " in one
    assert "fp32 VALU  " in one


def test_json_has_every_figure_with_its_source() -> None:
    (device,) = json.loads(_invoke("NVIDIA GB200", "--json").output)["devices"]
    assert device["id"] == "gb200"
    assert all(ceiling["source"] and ceiling["value"] > 0 for ceiling in device["ceilings"])
