"""Real bisections for `benchmarks.bisect_truth`: commits and releases with a planted regression, made on the fly."""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np

import perfkit
from perfkit.check.bisect.result import Bisection, read_bisection

COMMITS, RELEASES = "commits", "releases"
PACKAGE = "slowlayer"
# The releases of a package and the commits of a repository have one file, which becomes worse.
_LAYER = '''"""Change {number}."""

import torch

HELD = []


def apply(x):
    {body}
    return x
'''
_TRAIN = """
import torch
from torch import nn
from {package} import apply
import perfkit

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, x):
        return apply(self.body(x))

def build():
    return perfkit.Workload(
        name="planted", unit="samples", units_per_batch=32, build_model=Net,
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
        make_batch=lambda generator: {{"x": torch.randn(32, 64, generator=generator)}},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""
# What each kind does once it is planted, with the options that search it; nothing else of a change has an effect.
_BODIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kernels": ("x = x + torch.softmax(x, -1) * 0", ("--exact", "--quantity", "kernel_count")),
    "memory": ("HELD[:] = [torch.empty(2**20, dtype=torch.uint8)]", ("--exact", "--quantity", "peak_allocated")),
    "time": ("sum(range(60_000))", ("--quantity", "cpu_time", "--budget", "2min")),
}
_HARMLESS = ("pass", "x = x.view(x.shape)", "HELD[:] = []")
# What is searched how, in turn.
_REAL = (
    ("kernels", COMMITS), ("memory", COMMITS), ("kernels", RELEASES), ("time", COMMITS), ("memory", COMMITS),
    ("kernels", COMMITS), ("memory", RELEASES), ("kernels", COMMITS), ("memory", COMMITS), ("time", COMMITS),
    ("kernels", COMMITS), ("memory", COMMITS),
)  # fmt: skip


class RealPlant(NamedTuple):
    """`first_bad` of `count` commits or releases made `kind` worse. `size` is unknown before it is measured: 0."""

    kind: str
    of: str
    count: int
    first_bad: int
    harmless: tuple[int, ...]
    size: float = 0.0

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{self.kind} in {self.of}"


def draw_real_plant(rng: np.random.Generator, number: int) -> RealPlant:
    """Plant `number`, at a random place."""
    kind, of = _REAL[number % len(_REAL)]
    count = int(rng.integers(3, 7 if of == RELEASES or kind == "time" else 17))
    harmless = tuple(int(each) for each in rng.integers(0, len(_HARMLESS), count))
    return RealPlant(kind, of, count, int(rng.integers(1, count)), harmless)


def run_bisect(plant: RealPlant) -> tuple[Bisection, float]:
    """Run `perfkit bisect` in a new folder: what it found, and how long it took."""
    with tempfile.TemporaryDirectory(prefix="perfkit-planted-") as name:
        folder = Path(name)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        home = Path(perfkit.__file__).parents[1]
        environment["PYTHONPATH"] = os.pathsep.join(str(home / each) for each in (".", "cli", "reports"))
        _, options = _BODIES[plant.kind]
        if plant.of == COMMITS:
            ends = _make_commits(plant, folder)
        else:
            ends = _make_releases(plant, folder)
            environment["PERFKIT_CACHE"] = str(folder / "cache")
            links = filter(None, (os.environ.get("PIP_FIND_LINKS"), str(folder / "wheels")))
            environment["PIP_FIND_LINKS"] = " ".join(links)
        command = [sys.executable, "-m", "perfkit_cli", "bisect", *ends, "-w", "train.py:build", "--threads", "1"]
        began = monotonic()
        done = subprocess.run(
            [*command, *options, "--out", "out"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{plant.name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return read_bisection(folder / "out"), monotonic() - began


def list_bodies(plant: RealPlant) -> Iterator[str]:
    """What the file does in each candidate."""
    planted, _ = _BODIES[plant.kind]
    for index, harmless in enumerate(plant.harmless):
        body = _HARMLESS[harmless]
        yield f"{body}\n    {planted}" if index >= plant.first_bad else body


def _make_commits(plant: RealPlant, folder: Path) -> tuple[str, ...]:
    (folder / "train.py").write_text(_TRAIN.format(package="layer"), encoding="utf-8")
    (folder / ".gitignore").write_text("out/\n__pycache__/\n", encoding="utf-8")
    _run_git(folder, "init", "--quiet", "-b", "main")
    for number, body in enumerate(list_bodies(plant)):
        (folder / "layer.py").write_text(_LAYER.format(number=number, body=body), encoding="utf-8")
        _run_git(folder, "add", ".")
        _run_git(folder, "commit", "--quiet", "-m", f"change {number}")
    return "--good", f"HEAD~{plant.count - 1}", "--bad", "HEAD"


def _run_git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=perfkit", "-c", "user.email=perfkit@localhost")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def _make_releases(plant: RealPlant, folder: Path) -> tuple[str, ...]:
    (folder / "train.py").write_text(_TRAIN.format(package=PACKAGE), encoding="utf-8")
    (folder / "wheels").mkdir()
    for number, body in enumerate(list_bodies(plant)):
        write_wheel(folder / "wheels", f"1.{number}", _LAYER.format(number=number, body=body))
    return "--package", PACKAGE, "--good", "1.0", "--bad", f"1.{plant.count - 1}"


def write_wheel(folder: Path, version: str, source: str) -> Path:
    """A wheel of one module (PEP 427); an installer does without hashes in RECORD."""
    info = f"{PACKAGE}-{version}.dist-info"
    files = {
        f"{PACKAGE}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: perfkit\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    path = folder / f"{PACKAGE}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in (files | {f"{info}/RECORD": record}).items():
            wheel.writestr(name, text)
    return path
