"""Options of commands that train: the device, and the time limit of a run."""

import click

from perfkit.devices.machine.device_choice import DEVICES
from perfkit_cli.options.option_values import require_one_of

add_device_option = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar=f"[{'|'.join(DEVICES)}]",
    callback=require_one_of("device", DEVICES),
    help="Device to train on. auto: the GPU if available, else the CPU.",
)
add_timeout_option = click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Time limit per run; a longer run is stopped and reported as timed out.",
)
