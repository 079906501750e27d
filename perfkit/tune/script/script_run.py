"""One process of a script in a search: what it is told, and what it leaves."""

from perfkit.core.spec import Struct

ORDER_FILE = "order.json"
NOTES_FILE = "script.json"

# The first steps whose losses are kept: as many as a suite compares.
LOSS_STEPS = 10


class ScriptOrder(Struct):
    """What the process of a script is to do: record its steps as `perfkit run` does and end (`records`), or take steps
    on command.

    `script` is the script's path in the folder that the process starts in, `arguments` are its own. Random numbers
    begin at `seed` until the script seeds them itself. A recording ends after `limit_s` with what it has. With `nudged`
    the parameters are changed by one rounding after the first step: how losses part then is how they part by chance.
    With `eager_random` compiled code draws the random numbers of eager code, more slowly.
    """

    script: str
    arguments: tuple[str, ...] = ()
    records: bool = False
    seed: int = 0
    nudged: bool = False
    eager_random: bool = False
    limit_s: float = 600.0


class ScriptNotes(Struct):
    """What a process found out about its script.

    `losses` are those of the first steps: of each step the values that its backward passes began with, None for one
    that is no scalar. `files` are the files of its folder whose code it ran, `steps` the steps that it took.
    """

    losses: tuple[tuple[float | None, ...], ...] = ()
    files: tuple[str, ...] = ()
    steps: int = 0
