"""The measured examples on the pages of techniques: from suites to `measured.json` and the pages.

    perfkit bench --technique all --workload gpt:size=nano --out runs/all-gpt
    perfkit bench --technique all --workload resnet --out runs/all-resnet
    python benchmarks/technique_examples.py runs/all-gpt runs/all-resnet

On a machine that is quiet: speeds of a disturbed suite are left out.
"""

import argparse
from pathlib import Path

import msgspec

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.files import write_bytes
from perfkit_cli.pages.technique_examples import FILE, summarize_suite
from perfkit_cli.techniques import write_pages

REPOSITORY = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", type=Path, help="folders that `perfkit bench` wrote")
    suites = [summarize_suite(analyze_suite(folder)) for folder in parser.parse_args().suites]
    text = msgspec.json.format(msgspec.json.encode(suites), indent=1)
    write_bytes(REPOSITORY / "cli" / "perfkit_cli" / FILE, text + b"\n")
    write_pages(REPOSITORY / "docs" / "techniques")


if __name__ == "__main__":
    main()
