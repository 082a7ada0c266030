# SPDX-License-Identifier: Apache-2.0
"""Tiny runs of the benchmarks: they succeed, and report errors. Their figures have no meaning here."""

import contextlib
import importlib
import json
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

from tests import servers

BENCH = pathlib.Path(__file__).parents[2] / "bench"
SIZE = ("--databases", "postgresql", "--pools", "20", "--backends", "2", "--json")

#: Runs a benchmark's main() with arguments, and returns its exit code and its JSON output.
Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A function that imports a module of the benchmarks, which are no package."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module
    sys.modules.pop("api", None)  # a room of Tonnage has the same bare name


@pytest.fixture
def run(
    bench: Callable[[str], ModuleType],
    rabbitmq_server: servers.RabbitMQ,
    postgresql_server: servers.PostgreSQL,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """A function that runs a benchmark on the servers of the test session."""
    running = {servers.RabbitMQ: rabbitmq_server, servers.PostgreSQL: postgresql_server}
    monkeypatch.setattr(bench("throughput_machine"), "start", lambda kind: contextlib.nullcontext(running[kind]))

    def run(name: str, *arguments: str) -> tuple[int, Any]:
        code = bench(name).main(arguments)
        output, said = capsys.readouterr()
        return code, json.loads(output) if output else said

    return run


@pytest.mark.heavy
def test_the_throughput_benchmark_runs(run: Run) -> None:
    wanted = ("--variants", "many", "--schedulers", "2", "--warm-up", "0.5", "--in-flight", "8")
    for seconds in ("1", "10", "40"):  # the machine may pause
        code, found = run("throughput", *SIZE, *wanted, "--seconds", seconds)
        if code == 0 or "nothing was answered" not in found:
            break
    assert code == 0, found
    (one,) = found["variants"]
    assert one["variant"] == "many"
    assert one["placements_per_second"] > 0
    assert found["ratios"] == {}


@pytest.mark.heavy
def test_the_api_benchmark_runs(run: Run) -> None:
    times = ("--seconds", "3", "--warm-up", "1", "--in-flight", "2")
    code, found = run("api", *SIZE, "--shown-pools", "20", "--variants", "tonnage", "--what", "volumes,factors", *times)
    assert code == 0, found
    volumes, factors = found["measured"]
    assert volumes["requests_per_second"] > 0
    assert volumes["placed_per_second"] > 0
    assert factors["requests_per_second"] > 0
    assert factors["answer_bytes"] > 20 * 500
    assert found["ratios"] == {}


@pytest.mark.heavy
def test_the_restart_benchmark_runs(run: Run) -> None:
    code, found = run("restart", *SIZE, "--volumes", "100", "--rounds", "1")
    assert code == 0, found
    (one,) = found
    assert 0 < one["loaded"] < one["answered"]


@pytest.mark.heavy
def test_the_benchmark_of_a_large_report_runs(run: Run) -> None:
    size = ("--databases", "postgresql", "--pools", "3000", "--json")
    code, found = run("large_report", *size, "--seconds", "2", "--warm-up", "1", "--in-flight", "2")
    assert code == 0, found
    assert [one["period"] for one in found] == ["alone", "all pools new", "all pools changed"]
    for one in found:
        assert 0 < one["p50"] <= one["p95"] <= one["longest"]
    for one in found[1:]:
        assert one["applied_s"] > 0
        assert one["log_lines"] <= 3
        assert one["memory_mb"] > 10


@pytest.mark.heavy
def test_the_benchmark_of_a_million_pools_runs_small(run: Run) -> None:
    size = ("--backends", "4", "--pools-per-backend", "500", "--agent-processes", "2", "--json")
    times = ("--seconds", "3", "--warm-up", "1", "--changed", "100", "--pages", "2", "--restarts", "1")
    code, found = run("million", *size, *times)
    assert code == 0, found
    figures = {one["name"]: one["value"] for one in found}
    assert figures["decision at rest, p50"] > 0
    assert figures["changed pools beside changes"] > 10
    assert 0 < figures["restart"] < 600
    assert figures["first page of 1000 pools"] > 0


@pytest.mark.heavy
def test_the_latency_benchmark_runs(run: Run) -> None:
    times = ("--seconds", "3", "--warm-up", "1", "--in-flight", "1,2", "--poll", "0.05")
    code, found = run("latency", "--json", "--variants", "standalone,tonnage", "--databases", "postgresql", *times)
    assert code == 0, found
    assert [(one["variant"], one["in_flight"]) for one in found["measured"]] == [
        *(("standalone", 1), ("standalone", 2)),
        *(("tonnage", 1), ("tonnage", 2)),
    ]
    for one in found["measured"]:
        assert one["failed"] == 0
        assert 0 < one["milliseconds"]["answered"]["p50"] <= one["milliseconds"]["available"]["p50"]
        assert 0 < one["milliseconds"]["gone"]["p50"] <= one["milliseconds"]["gone"]["p99"]
        assert one["idle_percent"] > 0
    assert found["ratios"] == {}


@pytest.fixture
def without_servers(bench: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a server is started."""
    monkeypatch.setattr(bench("throughput_machine"), "start", lambda kind: pytest.fail(f"{kind.name} was started"))


def _nothing(path: pathlib.Path) -> None:
    pass


def _text(path: pathlib.Path) -> None:
    path.write_text("no program")
    path.chmod(0o755)


def _python_alone(path: pathlib.Path) -> None:
    path.symlink_to(sys.executable)


@pytest.mark.usefixtures("without_servers")
@pytest.mark.parametrize("make", [_nothing, pathlib.Path.mkdir, _text, _python_alone])
def test_a_named_python_without_cinder_is_reported_before_the_measurement(
    bench: Callable[[str], ModuleType],
    make: Callable[[pathlib.Path], None],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    python = tmp_path / "python"
    make(python)
    wanted = ["--variants", "group,cinder", "--databases", "mariadb", "--cinder-python", str(python)]
    assert bench("throughput").main(wanted) == 2
    output, said = capsys.readouterr()
    assert output == ""
    assert said.startswith(f"throughput: --cinder-python: {python} ")
    assert said.count("\n") == 1


def test_relative_paths_become_absolute(
    bench: Callable[[str], ModuleType], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = bench("throughput").parse(["--cinder-python", "venv/bin/python", "--cache", "cache"])
    assert arguments.cinder_python == tmp_path / "venv" / "bin" / "python"
    assert arguments.cache == tmp_path / "cache"


def test_a_missing_cinder_is_reported_loudly(
    bench: Callable[[str], ModuleType],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """If the package index has no Cinder, the other variants are measured all the same."""
    (tmp_path / "file").touch()
    wanted = ["--variants", "cinder", "--databases", "mariadb", "--cache", str(tmp_path / "file")]
    assert bench("throughput").main(wanted) == 2
    output, said = capsys.readouterr()
    assert said.count("NO RATIO TO CINDER") == 2, "at the start and in place of the ratio"
    assert "tonnage to cinder" not in output


def test_ratios_compare_medians(bench: Callable[[str], ModuleType]) -> None:
    throughput = bench("throughput")

    def measured(variant: str, rate: float) -> Any:
        return throughput.Figures(
            variant=variant,
            database="mariadb",
            placements_per_second=rate,
            p50_ms=0.0,
            p99_ms=0.0,
            cpu_ms={},
            others_cpus=0.0,
            fsyncs_per_second=0.0,
        )

    rounds = [measured("group", rate) for rate in (90, 400, 440)] + [measured("cinder", rate) for rate in (20, 20, 5)]
    assert throughput.ratios(rounds) == {"tonnage_to_cinder_mariadb": 20.0}


@pytest.mark.parametrize(
    ("stack", "stage"),
    [
        (
            ("_work (tonnage/scheduler/manager.py:9)", "reports (tonnage/scheduler/agents/report_handler.py:1)"),
            "reports",
        ),
        (
            ("Placer.place (tonnage/scheduler/decisions/placer.py:1)", "run (tonnage/filters/chain.py:3)"),
            "filters and weighers",
        ),
        (
            ("Placer.place (tonnage/scheduler/decisions/placer.py:1)", "book (tonnage/ledger/claims/bookings.py:3)"),
            "ledger",
        ),
        (("run (threading.py:1)", "consume (oslo_messaging/_drivers/impl_rabbit.py:2)"), "message bus"),
        (("run (threading.py:1)",), "else"),
    ],
)
def test_a_stack_is_assigned_to_a_stage(bench: Callable[[str], ModuleType], stack: Sequence[str], stage: str) -> None:
    assert bench("throughput_profile").stage(";".join(["process 1", *stack])).removeprefix("requests: ") == stage


def test_api_ratios_compare_the_best_and_equal_concurrency(bench: Callable[[str], ModuleType]) -> None:
    figures = bench("api_figures")

    def measured(what: str, variant: str, in_flight: int, rate: float) -> Any:
        return figures.Figures(
            what=what,
            variant=variant,
            database="postgresql",
            pools=1000,
            in_flight=in_flight,
            requests_per_second=rate,
            p50_ms=0.0,
            p99_ms=0.0,
            answer_bytes=0,
            failed=0,
            cpu_ms={},
            others_cpus=0.0,
            fsyncs_per_second=0.0,
        )

    tonnage = [measured("volumes", "tonnage", 1, rate) for rate in (30, 40, 100)]
    tonnage += [measured("volumes", "tonnage", 64, 300), measured("factors", "tonnage", 1, 50)]
    cinder = [
        measured("volumes", "cinder", 1, 10),
        measured("volumes", "cinder", 64, 5),
        measured("pools", "cinder", 1, 2),
    ]
    assert figures.ratios(tonnage + cinder) == {
        "volumes_postgresql": 30.0,
        "volumes_postgresql_1_at_a_time": 4.0,
        "volumes_postgresql_64_at_a_time": 60.0,
        "factors_postgresql": 25.0,
        "factors_postgresql_1_at_a_time": 25.0,
    }
    assert figures.ratios(tonnage) == {}


@pytest.mark.heavy
def test_the_extender_benchmark_runs(run: Run) -> None:
    code, found = run("extender", "--nodes", "20", "--calls", "3", "--json")
    assert code == 0, found
    times = {each["request"]: each["p95"] for each in found["requests"]}
    assert times.keys() == {"first", "filter", "prioritize", "no volumes", "reserving", "two clients"}
    assert all(time > 0 for time in times.values())
