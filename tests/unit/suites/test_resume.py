"""Suites that go on and grow, with runs that end at once."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import perfkit
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.errors import UsageError
from perfkit.core.files import read_json, write_json
from perfkit.core.record.environment import Environment
from perfkit.core.record.quantity import make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.measure import bench as bench_module
from perfkit.measure import device_probe, suite_writer
from perfkit.measure.auto_params import Find, FoundParams, require_given_params
from perfkit.measure.bench import run_bench
from perfkit.measure.schedule import NOT_SKIPPED, SkipReason, Techniques
from perfkit.store.layout import CEILINGS_FILE, RUN_FILE, SPEC_FILE, SUITE_FILE, RecomputationSearch, Suite
from perfkit.store.price import Price
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import read_suite
from perfkit.suites import resume
from perfkit.suites.resume import open_to_extend, open_to_resume
from perfkit.techniques.compose import find_open_technique
from perfkit.workloads.workload_trust import remember_workload
from tests.fixtures.suites import NO_MEMORY

HERE = Environment(
    hostname="a", platform="Linux", python="3.11", torch="2.13", device="cpu", device_name="a CPU", device_count=1
)
REQUEST = BenchRequest(
    workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
    variants=tuple(parse_variants("amp,ckpt")),
    device="cpu",
    device_count=1,
    cores=2,
    threads=1,
    rounds=0,
)


class Killed(BaseException):
    """As `kill -9`, after which nothing is tidied up."""


class Machine:
    """Processes that write a record at once, with steps of `step_s`. `ends` has how runs of a variant end, `log` what
    was run: `amp` with the machine to itself, `amp+baseline` by turns. `kill_at` is the place in the log of the run at
    which all is killed, once it has been announced."""

    def __init__(self) -> None:
        self.step_s = 0.1
        self.ends: dict[str, RunStatus] = {}
        self.log: list[str] = []
        self.kill_at: int | None = None

    def launch(self, spec: RunSpec, folder: Path, report: object, **_: object) -> RunResult:
        write_json(folder / SPEC_FILE, spec)
        self._happens(spec.variant)
        return self._write(spec, folder)

    def step_by_turns(self, teams: list[suite_writer.Team], **_: object) -> None:
        self._happens(" ".join(sorted(team.label for team in teams)))
        for team in teams:
            self._write(team.spec, team.folder)

    def _happens(self, what: str) -> None:
        self.log.append(what)
        if self.kill_at == len(self.log):
            raise Killed

    def _write(self, spec: RunSpec, folder: Path) -> RunResult:
        status = self.ends.get(spec.variant, RunStatus.OK)
        samples = StepSamples(wall_s=(self.step_s,) * 4) if status == RunStatus.OK else StepSamples()
        run = RunResult(status=status, reason="" if status == RunStatus.OK else "too long")
        write_json(folder / RUN_FILE, run)
        ranks = spec.launch.world_size
        for rank in range(ranks):
            record = RankRecord(
                rank=rank,
                world_size=ranks,
                status=status,
                samples=samples,
                is_steady=True,
                environment=HERE,
                losses=(2.0, 1.0),
                memory=msgspec.structs.replace(NO_MEMORY, rss=make_measurement(1e6, "bytes", "getrusage")),
            )
            write_json(folder / f"rank{rank}/record.json", record)
        return run


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(suite_writer, "launch_run", made.launch)
    monkeypatch.setattr(suite_writer, "step_by_turns", made.step_by_turns)
    monkeypatch.setattr(device_probe, "count_available_cores", lambda: 2)
    return made


def started(folder: Path, find: Find = require_given_params, **changes: object) -> Path:
    request = msgspec.structs.replace(REQUEST, **changes)
    run_bench(request, folder, command="perfkit bench", ceilings=None, progress=lambda _: None, find=find)
    return folder


def grown(
    folder: Path, text: str = "", *, failed: bool = False, find: Find = require_given_params, **changes: object
) -> Analysis:
    variants = tuple(parse_variants(text)) if text else ()
    request = msgspec.structs.replace(resume.read_first_request(folder), variants=variants, **changes)
    opened = open_to_extend(folder, request, failed=failed, ask=lambda _: HERE)
    resume.measure_remaining(opened, command="perfkit bench --into", ceilings=None, progress=lambda _: None, find=find)
    return analyze_suite(folder)


def resumed(folder: Path) -> Analysis:
    opened = open_to_resume(folder, ask=lambda _: HERE)
    resume.measure_remaining(opened, command="perfkit bench --resume", ceilings=None, progress=lambda _: None)
    return analyze_suite(folder)


def of(analysis: Analysis, name: str) -> Variant:
    return next(variant for variant in analysis.variants if variant.name == name)


def test_a_variant_is_added_beside_the_baseline_of_now_and_not_that_of_another_day(
    machine: Machine, tmp_path: Path
) -> None:
    suite = started(tmp_path / "s")
    machine.log.clear()
    machine.step_s = 0.3  # the machine of another day
    analysis = grown(suite, "flash")
    assert machine.log == ["baseline", "flash"]
    flash = of(analysis, "flash").difference
    assert flash is not None
    assert (flash.ratio, flash.pairs) == (pytest.approx(1.0), 1)
    runs = read_suite(suite).runs
    assert [(run.variant, run.repeat, bool(run.spec.passes)) for run in runs[3:]] == [
        ("baseline", 1, False),
        ("flash", 1, True),
    ]
    assert of(analysis, "flash").parity.verdict == "equal"  # losses are those of then
    first, second = analysis.sessions
    assert (first.variants, second.variants) == (("baseline", "amp", "ckpt"), ("baseline", "flash"))
    assert [session.baseline_steps["baseline"].value for session in analysis.sessions] == [0.1, 0.3]


def test_rounds_are_of_what_was_added_with_its_baseline(machine: Machine, tmp_path: Path) -> None:
    suite = started(tmp_path / "s", rounds=2)
    machine.log.clear()
    analysis = grown(suite, "flash,inplace", rounds=3)
    assert machine.log == ["flash", "inplace", *["baseline flash inplace"] * 3]
    assert analysis.sampling is not None
    assert (analysis.sampling.rounds, "3 rounds" in analysis.sampling.end_reason) == (5, True)
    again = grown(suite, "amp", rounds=1)  # one that is there is measured further
    assert machine.log[-1] == "amp baseline"
    difference = of(again, "amp").difference
    assert difference is not None
    assert difference.pairs == 3


def test_more_ranks_are_measured_beside_all_sizes_of_the_suite(machine: Machine, tmp_path: Path) -> None:
    suite = started(tmp_path / "s", variants=tuple(parse_variants("ddp,amp")), world_sizes=(1, 2), rounds=2)
    assert machine.log[:4] == ["baseline", "amp", "baseline@2", "ddp@2"]
    machine.log.clear()
    grown(suite, "ddp", world_size=4, world_sizes=(), rounds=1)
    alone, together = machine.log[:2], machine.log[2:]
    assert alone == ["baseline@4", "ddp@4"]
    assert sorted(together) == ["baseline", "baseline@2 ddp@2", "baseline@4 ddp@4"]
    machine.log.clear()
    grown(suite, "flash", rounds=1)  # what is not said is the suite's
    assert machine.log[:3] == ["flash", "flash@2", "flash@4"]


def test_how_ranks_share_the_work_is_a_condition_of_a_suite_and_their_number_is_none(
    machine: Machine, tmp_path: Path
) -> None:
    suite = started(tmp_path / "s", world_sizes=(1, 2))
    with pytest.raises(UsageError, match="scaling: weak -> strong"):
        grown(suite, "flash", scaling="strong")
    other = started(tmp_path / "t")
    with pytest.raises(UsageError, match=r"world-size: .* -> given"):
        grown(other, "flash", world_size=2)


def test_an_interruption_between_sizes_is_gone_on_with(machine: Machine, tmp_path: Path) -> None:
    machine.kill_at = 3
    with pytest.raises(Killed):
        started(tmp_path / "s", variants=tuple(parse_variants("amp")), world_sizes=(1, 2), rounds=1)
    machine.kill_at = None
    resumed(tmp_path / "s")
    assert machine.log == ["baseline", "amp", "baseline@2", "baseline@2", "amp@2", "amp baseline", "amp@2 baseline@2"]


def test_what_an_interruption_left_is_done_and_nothing_twice(machine: Machine, tmp_path: Path) -> None:
    machine.kill_at = 2
    with pytest.raises(Killed):
        started(tmp_path / "s", rounds=3)
    machine.kill_at = 5  # in the second round
    with pytest.raises(Killed):
        resumed(tmp_path / "s")
    assert machine.log == ["baseline", "amp", "amp", "ckpt", "amp baseline ckpt"]
    machine.kill_at = None
    moved = (tmp_path / "s").rename(tmp_path / "moved")
    analysis = resumed(moved)
    assert machine.log[5:] == ["amp baseline ckpt"] * 3
    assert {variant.status for variant in analysis.variants} == {RunStatus.OK}
    assert analysis.sampling is not None
    assert (analysis.sampling.rounds, "3 rounds" in analysis.sampling.end_reason) == (3, True)
    assert len(analysis.sessions) == 1
    assert resumed(moved).sampling == analysis.sampling  # nothing is left
    assert len(machine.log) == 8


def test_what_failed_is_repeated_with_more_time_and_the_rest_is_kept(machine: Machine, tmp_path: Path) -> None:
    machine.ends = {"ckpt": RunStatus.TIMEOUT}
    suite = started(tmp_path / "s")
    with pytest.raises(UsageError, match="--technique"):
        grown(suite, timeout_s=1200.0)
    machine.ends, machine.log = {}, []
    analysis = grown(suite, failed=True, timeout_s=1200.0)
    assert machine.log == ["baseline", "ckpt"]
    assert of(analysis, "ckpt").status == RunStatus.OK
    assert [(run.repeat, run.spec.launch.timeout_s) for run in read_suite(suite).runs if run.variant == "ckpt"] == [
        (1, 1200.0)
    ]
    assert not (suite / "ckpt/0").exists()


def test_with_a_baseline_that_failed_all_that_is_compared_with_it_is_measured_again(
    machine: Machine, tmp_path: Path
) -> None:
    machine.ends = {"baseline": RunStatus.CRASHED}
    suite = started(tmp_path / "s", rounds=1)
    machine.ends, machine.log = {}, []
    analysis = grown(suite, failed=True)
    assert machine.log == ["baseline", "amp baseline ckpt"]
    assert [variant.name for variant in analysis.variants] == ["baseline", "amp", "ckpt"]
    assert of(analysis, "amp").difference is not None


@pytest.mark.parametrize(
    ("changes", "here", "told"),
    [
        ({"dtype": "bf16"}, HERE, "dtype: fp32 -> bf16"),
        ({"seed": 3}, HERE, "seed: 0 -> 3"),
        ({"threads": 2}, HERE, "threads: 1 -> 2"),
        ({"accumulation": 2}, HERE, "accumulate: 1 -> 2"),
        ({"workload": WorkloadSpec(name="resnet")}, HERE, "workload: gpt:size=nano -> resnet"),
        ({}, msgspec.structs.replace(HERE, torch="2.14"), "torch: 2.13 -> 2.14"),
        ({}, msgspec.structs.replace(HERE, device_name="another"), "device_name: a CPU -> another"),
    ],
)
def test_other_conditions_are_refused_by_name(
    machine: Machine, tmp_path: Path, changes: dict[str, object], here: Environment, told: str
) -> None:
    suite = started(tmp_path / "s")
    before = (suite / SUITE_FILE).read_bytes()
    request = msgspec.structs.replace(REQUEST, variants=tuple(parse_variants("flash")), **changes)
    with pytest.raises(UsageError, match="conditions") as refused:
        open_to_extend(suite, request, ask=lambda _: here)
    assert told in str(refused.value).splitlines()[1]
    assert (suite / SUITE_FILE).read_bytes() == before
    if not changes:
        with pytest.raises(UsageError, match=told.partition(":")[0]):
            open_to_resume(suite, ask=lambda _: here)


def rewritten(suite: Path, change: Callable[[Suite], Suite]) -> Path:
    write_json(suite / SUITE_FILE, change(read_json(suite / SUITE_FILE, Suite)))
    return suite


def test_another_perfkit_and_a_suite_that_does_not_tell_are_refused(machine: Machine, tmp_path: Path) -> None:
    suite = rewritten(started(tmp_path / "s"), lambda old: msgspec.structs.replace(old, perfkit="0.0.1"))
    with pytest.raises(UsageError, match=f"perfkit: 0.0.1 -> {perfkit.__version__}"):
        resumed(suite)
    rewritten(suite, lambda old: msgspec.structs.replace(old, sessions=()))
    with pytest.raises(UsageError, match="perfkit"):
        resumed(suite)


def test_a_workload_that_has_changed_since_is_refused_with_its_file(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("WIDTH = 8\n")
    train = tmp_path / "train.py"
    train.write_text(
        "import torch\nimport perfkit\nfrom sizes import WIDTH\n\n\ndef build():\n"
        "    return perfkit.Workload(name='w', unit='samples', units_per_batch=1,\n"
        "        build_model=lambda: torch.nn.Linear(WIDTH, 1), make_batch=lambda generator: {},\n"
        "        build_optimizer=lambda model: None, loss=lambda model, batch: None)\n"
    )
    workload = WorkloadSpec(name=f"{train}:build")
    from perfkit.workloads.workload_table import load_workload

    load_workload(workload)
    remember_workload(workload)
    suite = started(tmp_path / "s", workload=workload)
    assert sorted(read_suite(suite).suite.sources) == ["sizes.py", "train.py"]
    grown(suite, "ckpt")
    (tmp_path / "sizes.py").write_text("WIDTH = 9\n")
    with pytest.raises(UsageError, match=r"contents of sizes\.py: [0-9a-f]{12} -> [0-9a-f]{12}"):
        grown(suite, "flash")


def sized(request: BenchRequest, _progress: object) -> FoundParams:
    """Whatever is open is a batch, of four samples."""
    (four,) = parse_variants("batch:size=4")
    variants = tuple(four if find_open_technique(each) else each for each in request.variants)
    return FoundParams(msgspec.structs.replace(request, variants=variants))


def killed(*_: object) -> FoundParams:
    raise Killed


def test_variants_of_a_session_that_was_interrupted_in_its_search_are_not_lost(
    machine: Machine, tmp_path: Path
) -> None:
    suite = started(tmp_path / "s")
    with pytest.raises(Killed):
        grown(suite, "batch:auto", find=killed)
    machine.log.clear()
    analysis = grown(suite, "flash", find=sized)
    assert machine.log == ["baseline", "flash", "batch:size=4"]
    assert [variant.name for variant in analysis.variants] == ["baseline", "amp", "ckpt", "flash", "batch:size=4"]


def test_a_search_that_ended_before_its_variant_was_entered_is_not_made_again(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(suite_writer.SuiteWriter, "plan", killed)
        with pytest.raises(Killed):
            started(tmp_path / "s", find=sized, variants=tuple(parse_variants("batch:auto")))
    assert read_suite(tmp_path / "s").suite.variants == ("baseline", "batch:auto")
    analysis = grown(tmp_path / "s", "flash")
    assert [variant.name for variant in analysis.variants] == ["baseline", "flash", "batch:size=4"]


def test_a_variant_for_which_nothing_was_found_is_skipped_with_the_reason(machine: Machine, tmp_path: Path) -> None:
    def found(request: BenchRequest, _progress: object) -> FoundParams:
        search = RecomputationSearch(
            requested_variant="ckpt:fit=1MiB", selected_variant=None, limit_bytes=2.0**20, trials=(), reason="why"
        )
        return FoundParams(request, recomputations=(search,), refusals={"ckpt:fit=1MiB": "why"})

    suite = started(tmp_path / "s", find=found, variants=tuple(parse_variants("ckpt:fit=1MiB,amp")))
    analysis = analyze_suite(suite)
    assert [variant.name for variant in analysis.variants] == ["baseline", "ckpt:fit=1MiB", "amp"]
    assert (of(analysis, "ckpt:fit=1MiB").status, of(analysis, "ckpt:fit=1MiB").reason) == (RunStatus.SKIPPED, "why")
    assert analysis.recomputations[0].reason == "why"
    assert machine.log == ["baseline", "amp"]


def test_what_nobody_finds_is_not_run(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ckpt:fit=1GiB"):
        started(tmp_path / "s", variants=tuple(parse_variants("ckpt:fit=1GiB")))
    assert machine.log == []


def test_one_that_has_failed_is_not_measured_further_unless_it_is_repeated(machine: Machine, tmp_path: Path) -> None:
    machine.ends = {"ckpt": RunStatus.TIMEOUT}
    suite = started(tmp_path / "s")
    before = (suite / SUITE_FILE).read_bytes()
    with pytest.raises(UsageError, match=r"ckpt failed .*--retry failed"):
        grown(suite, "ckpt")
    assert (suite / SUITE_FILE).read_bytes() == before
    machine.log.clear()
    more = msgspec.structs.replace(REQUEST, variants=tuple(parse_variants("ckpt,flash")))
    assert open_to_extend(suite, more, ask=lambda _: HERE).left_out == ("ckpt",)
    analysis = grown(suite, "ckpt,flash")
    assert (of(analysis, "ckpt").status, of(analysis, "flash").status) == (RunStatus.TIMEOUT, RunStatus.OK)
    assert "ckpt" not in machine.log
    machine.ends = {}
    assert of(grown(suite, "amp,ckpt", failed=True), "ckpt").status == RunStatus.OK


def test_one_that_was_skipped_is_tried_again_where_it_is_named(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(techniques: Techniques, *_: object) -> SkipReason:
        is_refused = techniques and techniques[0].name == "amp"
        return SkipReason("its package is missing", "skip.package") if is_refused else NOT_SKIPPED

    with monkeypatch.context() as patch:
        patch.setattr(bench_module, "find_refusal", refused)
        suite = started(tmp_path / "s")
    assert of(grown(suite, "flash"), "amp").status == RunStatus.SKIPPED
    machine.log.clear()
    assert of(grown(suite, "amp"), "amp").status == RunStatus.OK
    assert machine.log == ["baseline", "amp"]


def test_what_is_left_of_a_run_that_was_being_removed_is_not_gone_on_with(machine: Machine, tmp_path: Path) -> None:
    suite = started(tmp_path / "s")
    for path in ("flash/1", "flash/2"):
        (suite / path).mkdir(parents=True)
        (suite / path / "stale").touch()
    grown(suite, "flash", rounds=1)
    assert {run.path for run in read_suite(suite).suite.runs[3:]} == {"flash/1", "baseline/2", "flash/2"}
    assert not list(suite.glob("*/*/stale"))


def test_a_price_is_kept_before_anything_is_run(machine: Machine, tmp_path: Path) -> None:
    machine.kill_at = 1
    price = Price(per_hour=3.6, currency="$")
    with pytest.raises(Killed):
        run_bench(REQUEST, tmp_path, command="", ceilings=None, progress=lambda _: None, price=price)
    assert read_suite(tmp_path).suite.price == price


def test_measured_ceilings_are_not_replaced_by_none(machine: Machine, tmp_path: Path) -> None:
    matrix = Ceiling(
        level=CeilingLevel.MATRIX, dtype="fp32", value=1e11, unit="FLOP/s", kind=CeilingKind.MEASURED, source="a test"
    )
    fewer = DeviceCeilings(device="cpu", device_name="a CPU", fingerprint="f")
    some = msgspec.structs.replace(fewer, ceilings=(matrix,))
    more = msgspec.structs.replace(fewer, ceilings=(matrix, msgspec.structs.replace(matrix, dtype="bf16")))
    suite = started(tmp_path / "s")
    for told, kept in ((fewer, fewer), (some, some), (fewer, some), (more, more)):
        opened = open_to_resume(suite, ask=lambda _: HERE)
        resume.measure_remaining(opened, command="", ceilings=told, progress=lambda _: None)
        assert read_json(suite / CEILINGS_FILE, DeviceCeilings) == kept


def test_why_there_are_no_counters_is_told_once(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = RunResult(status=RunStatus.SKIPPED, reason="no right to")
    monkeypatch.setattr(bench_module, "_collect_variant_counters", lambda *_: (skipped, "no right to"))
    monkeypatch.setattr(bench_module, "list_chip_metrics", lambda _ncu: ())
    suite = started(tmp_path / "s", variants=tuple(parse_variants("baseline")))
    for _ in range(2):
        opened = open_to_resume(suite, ask=lambda _: HERE)
        resume.measure_remaining(opened, command="", ceilings=None, progress=lambda _: None, ncu=Path("ncu"))
    assert [note.id for note in read_suite(suite).suite.warnings] == ["run.no_counters"]


@pytest.mark.parametrize("read", [resume.read_first_request, resume.read_whole_request, open_to_resume])
def test_code_that_the_user_has_not_named_is_refused(
    tmp_path: Path, machine: Machine, read: Callable[[Path], object]
) -> None:
    folder = started(tmp_path / "suite")
    text = (folder / SUITE_FILE).read_text()
    (folder / SUITE_FILE).write_text(text.replace('"name": "gpt"', '"name": "os:system"'))
    assert (folder / SUITE_FILE).read_text() != text
    with pytest.raises(UsageError) as refused:
        read(folder)
    assert refused.value.id == "usage.untrusted_workload"
