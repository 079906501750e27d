"""Measures a script and its edited copies: recordings, and rounds of processes that step by turns."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import get_value
from perfkit.devices.accelerator import Accelerator, get_accelerator, has_own_memory
from perfkit.devices.machine.machine import list_usable_cpus
from perfkit.store.suite_reader import read_suite
from perfkit.tune.patch.script_edits import EditPlace
from perfkit.tune.script.judge_edits import Losses
from perfkit.tune.script.record_script import RecordedScript, record_script
from perfkit.tune.script.script_copies import make_copy, read_sources, write_edits
from perfkit.tune.script.script_request import ScriptRequest
from perfkit.tune.script.script_rounds import RoundSteps, ScriptVariant, find_root, measure_round

ORIGINAL, ECHO = "original", "echo"
_COPIES, _RECORDED, _ROUNDS = "copies", "recorded", "rounds"

# Of a round's processes each needs about this part of the time of a recording, before one was measured.
_ROUND_SHARE = 0.2

Edits = tuple[str, ...]


class ScriptBench:
    """Measures into `folder`. `sources`, `place` and `original` are known once the original was recorded.

    `process_s` is the time that a round takes for each of its processes, as measured so far; `peaks` are the peaks of
    memory that were recorded, `eager_losses` the losses of compiled edits with the random numbers of eager code.
    """

    def __init__(self, request: ScriptRequest, folder: Path, report: Callable[[str], None]) -> None:
        self.request, self.folder, self.report = request, folder, report
        self.root, self.script = find_root(request.script)
        self.sources = read_sources(self.root, self.script, ())
        shutil.rmtree(folder / _COPIES, ignore_errors=True)  # of an interrupted search: the script may have changed
        self.place = EditPlace("cpu", len(list_usable_cpus()))
        self.process_s = 0.0
        self.peaks: dict[Edits, float | None] = {}
        self.eager_losses: dict[Edits, Losses] = {}

    @property
    def by_turns(self) -> bool:
        """True if the processes of a round step by turns, False if one follows the other."""
        return not has_own_memory(self.place.device)

    def record_original(self) -> RecordedScript:
        """Record the script as it is, and learn where it runs and of which files it consists."""
        self.report(f"recording {self.request.label}")
        began = time.monotonic()
        recorded = self.record(())
        self.process_s = _ROUND_SHARE * (time.monotonic() - began)
        device = read_suite(recorded.folder).runs[0].spec.launch.device
        accelerator = get_accelerator(device)
        self.place = EditPlace(
            device,
            self.place.cores,
            has_bf16=_has_bf16(accelerator),
            has_tf32=accelerator.has_nvml,
            copies=accelerator.has_own_memory,
        )
        self.sources = read_sources(self.root, self.script, recorded.notes.files)
        return recorded

    def record(self, edits: Edits) -> RecordedScript:
        """Record the script with these edits."""
        folder = self._name_new(_RECORDED)
        order = self.request.make_order(self.script)
        recorded = record_script(self.make_variant(edits).folder, order, folder)
        self.peaks[edits] = get_peak_bytes(recorded)
        return recorded

    def make_variant(self, edits: Edits) -> ScriptVariant:
        """The copy of the script with these edits, made if it is not there."""
        name = name_edits(edits)
        changed = write_edits(self.sources, edits, self.place) if edits else {}
        slug = "".join(letter if letter.isalnum() else "-" for letter in name)
        return make_copy(self.sources, name, changed, self.folder / _COPIES / slug)

    def measure(self, variants: Sequence[Edits], turns_s: float, *, echo: bool = False) -> dict[str, RoundSteps]:
        """One round of these variants, by their names, in an order that changes from round to round; with `echo` also
        the original one rounding away."""
        folder = self._name_new(_ROUNDS)
        turned = variants if int(folder.name) % 2 == 0 else list(reversed(variants))
        began = time.monotonic()
        steps = measure_round(
            [
                *map(self.make_variant, turned),
                *([self.make_variant(())._replace(name=ECHO, nudged=True)] if echo else []),
            ],
            self.request.make_order(self.script),
            folder,
            device=self.place.device,
            turns_s=turns_s,
        )
        self.process_s = (time.monotonic() - began) / (len(variants) + echo)
        return steps

    def measure_eager_losses(self, edits: Edits) -> Losses:
        """The first losses of the script with these edits, whose compiled code draws the random numbers of eager code.

        A `VariantFailedError` where it fails with them.
        """
        if edits not in self.eager_losses:
            variant = self.make_variant(edits)._replace(eager_random=True)
            folder, order = self._name_new(_ROUNDS), self.request.make_order(self.script)
            steps = measure_round([variant], order, folder, device=self.place.device, turns_s=0.0)
            self.eager_losses[edits] = steps[variant.name].notes.losses
        return self.eager_losses[edits]

    def _name_new(self, kind: str) -> Path:
        parent = self.folder / kind
        parent.mkdir(parents=True, exist_ok=True)
        return parent / f"{sum(1 for _ in parent.iterdir()):03}"


def name_edits(edits: Edits) -> str:
    """The name of a variant: its edits, or `original`."""
    return "+".join(edits) or ORIGINAL


def get_variant(recorded: RecordedScript) -> Variant:
    """The recorded loop."""
    return recorded.analysis.variants[0]


def get_peak_bytes(recorded: RecordedScript) -> float | None:
    """The recorded peak of allocated memory; None where it was not recorded."""
    return get_value(get_variant(recorded).peak_allocated)


def _has_bf16(accelerator: Accelerator) -> bool:
    """True if the device computes in bf16. A CPU does, if slowly: that is measured."""
    supports = getattr(accelerator.runtime, "is_bf16_supported", None)
    return supports is None or bool(supports(including_emulation=False))
