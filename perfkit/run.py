"""Entry point `python -m perfkit.run [options] train.py args...`, which `perfkit run` becomes and torchrun starts."""

import importlib
import sys

# Python puts the current folder first for `-m`, the script's own folder for a script: until the mode is known, no
# module there may shadow one that perfkit needs.
_FIRST = [] if sys.flags.safe_path else [sys.path.pop(0)]

if __name__ == "__main__":
    # By name: the command line is above this package, which imports nothing of it.
    importlib.import_module("perfkit_cli.run_script.program_runner").main(_FIRST)
