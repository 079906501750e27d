"""`perfkit mfu`: audits MFU, under every convention and against a printed figure."""

from typing import Any

import click

from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.size_options import COUNT
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit mfu llama-3-8b --seq 8192                                      FLOPs of a token, by every convention
  perfkit mfu llama-3-8b --seq 8192 --tokens-per-s 5762 --gpu h100
  perfkit mfu --params 8b --tokens-per-s 5762 --gpu h100 --seq 8192      numbers alone: parameters without attention
  perfkit mfu llama-3-8b --seq 8192 --tokens-per-s 2904 --gpu a100-80g --claimed 56.8%
  perfkit mfu config.json --seq 4096 --step 1.2s --tokens-per-step 4M --gpus 64 --gpu h200
  perfkit mfu hf:LlamaConfig:num_hidden_layers=16 --seq 2048             a class of Transformers
  perfkit mfu runs/gpt@amp                                               a run: counted ops beside the formulas
  perfkit mfu trace.json.gz --model llama-3-8b --seq 8192 --tokens-per-step 16384
  perfkit mfu llama-3-8b --seq 8192 --claimed 57.9GFLOP                  which formula is it?
\b
Exit codes: 0 done, 2 invalid request or unreadable file.
"""


@click.command(epilog=EXAMPLES, short_help="Audit MFU: every convention, and what reproduces a printed figure.")
@click.argument("source", metavar="[MODEL|RUN|TRACE]", required=False)
@click.option("--model", metavar="MODEL", help="Model of a run or trace that does not name its own.")
@click.option("--params", metavar="N", help="Parameters in place of a model, such as 8b; all of them, however sharded.")
@click.option("--active-params", metavar="N", help="With --params and experts: parameters that a token passes.")
@click.option("--layers", metavar="N", type=COUNT, help="With --params: layers.")
@click.option("--width", metavar="N", type=COUNT, help="With --params: query heads times the size of a head.")
@click.option("--vocab", metavar="N", type=COUNT, help="With --params: rows of the embedding.")
@click.option("--tied", is_flag=True, help="With --params: the output head is the embedding.")
@click.option("--seq", "seq_len", metavar="N", type=COUNT, help="Tokens of a sequence.")
@click.option("--tokens-per-s", metavar="N", help="Speed, of all --gpus together.")
@click.option("--step", metavar="TIME", help="Time of a step in place of --tokens-per-s, such as 560ms.")
@click.option("--tokens-per-step", metavar="N", help="Tokens of a step, of all --gpus and microbatches together.")
@click.option("--gpus", metavar="N", type=COUNT, help="GPUs that the tokens are of.  [default: 1, or the run's]")
@click.option("--gpus-per-node", metavar="N", type=COUNT, default=8, show_default=True, help="GPUs of a node.")
@click.option(
    "--accumulate",
    "accumulation",
    metavar="N",
    type=COUNT,
    default=1,
    show_default=True,
    help="Microbatches of a step.",
)
@click.option("--gpu", metavar="NAME", help="GPU, such as h100; see perfkit devices. For a trace: its GPU.")
@click.option("--peak", metavar="RATE", help="Peak of a GPU that is not listed, such as 275TFLOP/s.")
@click.option("--dtype", metavar="DTYPE", help="Dtype of the matrix products.  [default: the run's, or bf16]")
@click.option(
    "--claimed", metavar="FIGURE", help="Printed figure to explain: 41.2%, 198TFLOP/s or 57.9GFLOP (a token)."
)
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("-v", "--verbose", is_flag=True, help="Print who uses each convention, and the peaks of all dtypes.")
@add_json_option("the audit")
def command(*, as_json: bool, markdown: bool, verbose: bool, **options: Any) -> None:
    """Compute MFU under every convention, each with its formula and terms, and explain a printed figure.

    The argument is a model (perfkit workloads lists public ones; a config.json, its folder, or hf:CLASS), a folder of
    perfkit bench or run, or a trace. Parameters are counted from the model's shape, those of all shards.

    MFU figures differ by what they count: embeddings, attention over all or half of the pairs, recomputation (HFU),
    experts that a token does not pass; and by the peak: dense or sparse, and of which dtype. --claimed finds the
    formulas, with at most one known mistake, that reproduce a figure within its last digit.
    """
    from perfkit.mfu.audit import audit_mfu

    audit = audit_mfu(**options)
    if as_json:
        print_json(audit)
        return
    from perfkit_cli.output.mfu_output import format_audit

    for line in format_audit(audit, markdown=markdown, verbose=verbose):
        click.echo(line)
