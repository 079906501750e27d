"""Figures of a watched loop as a text file that Prometheus' node exporter collects."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfkit.attach.host.logger import Logger
from perfkit.attach.host.world import get_world
from perfkit.attach.live.scalars import SCALARS
from perfkit.core.errors import UsageError
from perfkit.integrations.import_library import import_library

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LABELS = ("name", "rank", "host")
SUFFIX = ".prom"
_BY_NAME = {scalar.name: scalar for scalar in SCALARS.values()}


class PrometheusTextLogger:
    """Keeps the newest figures in a file for the node exporter's textfile collector, which reads `*.prom` of a folder.

    The file is replaced atomically, and stays when the run ends; the exporter's `node_textfile_mtime_seconds` tells its
    age. It holds gauges in base units and a counter `perfkit_steps_total`; unknown figures are omitted. `name`
    distinguishes runs; each rank writes its own file.

    Raises:
        UsageError: `path` does not end in `.prom`.
        UnavailableError: prometheus_client is not installed.
    """

    def __init__(self, path: str | Path, *, name: str = "", rank: int | None = None, host: str = "") -> None:
        if Path(path).suffix != SUFFIX:
            raise UsageError(f"{path}: the node exporter reads only *{SUFFIX} files; rename it")
        self._path = Path(path).absolute()
        self._client = import_library("prometheus_client", package="prometheus_client", extra="prometheus")
        self._core = import_library("prometheus_client.core", package="prometheus_client", extra="prometheus")
        self._name = name
        self._rank = rank
        self._host = host or socket.gethostname()
        self._step = 0
        self._values: dict[str, float] = {}

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Replace the file. A `UsageError` names a figure that is not in `perfkit.attach.live.scalars`."""
        unknown = sorted(values.keys() - _BY_NAME.keys())
        if unknown:
            raise UsageError(f"no Prometheus metric for {', '.join(unknown)}; expected one of {', '.join(_BY_NAME)}")
        self._step, self._values = step, dict(values)
        registry = self._client.CollectorRegistry(auto_describe=False)
        registry.register(self)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._client.write_to_textfile(str(self._path), registry)

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics, as prometheus_client expects of a collector."""
        rank = get_world().rank if self._rank is None else self._rank
        labels = (self._name, str(rank), self._host)
        yield _build_metric(self._core.CounterMetricFamily, "perfkit_steps", "Steps done so far", labels, self._step)
        for name, value in self._values.items():
            scalar = _BY_NAME[name]
            yield _build_metric(self._core.GaugeMetricFamily, scalar.prometheus, scalar.help, labels, value)

    def report(self, folder: Path) -> None:
        """Prometheus has no place for reports."""

    def close(self) -> None:
        """The last figures stay."""


def _build_metric(family: Any, name: str, text: str, labels: tuple[str, ...], value: float) -> "Metric":
    metric: Metric = family(name, text, labels=LABELS)
    metric.add_metric(labels, value)  # type: ignore[attr-defined]
    return metric


def create_logger(argument: str, name: str) -> Logger:
    """`prometheus:FILE.prom`."""
    if not argument:
        raise UsageError("prometheus needs the file to write: prometheus:FILE.prom")
    return PrometheusTextLogger(argument, name=name)
