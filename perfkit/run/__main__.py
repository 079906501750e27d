"""`python -m perfkit.run [options] train.py args...`: what `perfkit run` becomes, and what torchrun starts."""

import sys

# Python puts the current folder first for `-m`, the script's own folder for a script: until it is known which it shall
# be, no module there can be taken for one that perfkit needs.
_FIRST = [] if sys.flags.safe_path else [sys.path.pop(0)]

from perfkit.run.start import main  # noqa: E402

main(_FIRST)
