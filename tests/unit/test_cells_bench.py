# SPDX-License-Identifier: Apache-2.0
"""The simulation of cells: its policies, a lost cell, crashes of groups, its checks; the arithmetic of one ledger."""

import dataclasses
import importlib
import json
import pathlib
import re
from typing import Any

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"
SMALL = {"cells": 4, "pools": 2, "projects": 20, "requests": 1500, "life": 50.0, "lost": 20.0, "spread": 0}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("cells_simulation")


@pytest.fixture
def arithmetic(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("cells_arithmetic")


def _policy(bench: Any, name: str) -> Any:
    [policy] = [policy for policy in bench.POLICIES if policy.name == name]
    return policy


def _world(bench: Any, requests: list[Any], *, quotas: tuple[int, ...] = (100,), **changes: Any) -> Any:
    """Two cells with a pool of 100 GiB each, the home of each project in the first, which is lost from 50 to 60 s.

    The run ends at 1,000 s, with a request of a project without quota.
    """
    requests = [
        *requests,
        bench.Request(len(requests), 1000.0, len(quotas), 1, 1.0, False, 0),
    ]
    scenario = bench.Scenario(cells=2, pools=1, projects=len(quotas) + 1, spread=0, lost=10.0, tries=2)
    scenario = dataclasses.replace(scenario, **changes)
    return bench.World(
        scenario=scenario,
        requests=tuple(requests),
        first_counted=0,
        capacities=((100,), (100,)),
        quotas=(*quotas, 0),
        cells_of_project=((0, 1),) * (len(quotas) + 1),
        lost_cell=0,
        lost_at=50.0,
    )


def _request(bench: Any, number: int, time: float, size_gb: int, life: float = 2000.0, **more: Any) -> Any:
    return bench.Request(
        number, time, more.get("project", 0), size_gb, life, more.get("group", False), more.get("crash", 0)
    )


def _run(bench: Any, world: Any, policy: str) -> Any:
    simulation = bench.Simulation(world, _policy(bench, policy), bench.decide_with_one_ledger(world))
    simulation.run()
    return simulation


def test_all_policies_stay_within_capacities_and_quotas_and_a_seed_repeats_them(bench: Any) -> None:
    size = bench.Scenario(**SMALL)
    outcomes = list(bench.simulate(bench.make_world(size)))
    assert [outcome.policy for outcome in outcomes] == [policy.name for policy in bench.POLICIES]
    assert list(bench.simulate(bench.make_world(size))) == outcomes
    assert list(bench.simulate(bench.make_world(dataclasses.replace(size, seed=2)))) != outcomes
    for outcome in outcomes:
        alone = outcome.refused_by_one_ledger - outcome.admitted_by_cells_alone
        assert outcome.refused == outcome.causes.total() + alone
    equal, demand, _, recall = outcomes
    assert equal.messages == equal.waits == 0
    assert 0 < demand.messages < recall.messages
    assert recall.causes[bench.Cause.QUOTA] < demand.causes[bench.Cause.QUOTA] < equal.requests / 10
    assert recall.causes[bench.Cause.QUOTA] * 10 < equal.causes[bench.Cause.QUOTA]


def test_a_cell_that_does_not_look_at_its_part_is_noticed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def admit(self: Any, cell: Any, request: Any) -> Any:
        yield 0.0

    monkeypatch.setattr(bench.Simulation, "_obtain_quota", admit)
    world = _world(bench, [_request(bench, number, float(number), 20) for number in range(2)], quotas=(30,))
    with pytest.raises(bench.Exceeded, match=r"project 0 "):
        _run(bench, world, "on demand")


def test_a_home_that_lends_a_part_twice_is_noticed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lend = bench.Simulation._transfer

    def lend_twice(self: Any, project: int, amount: int, home: Any, cell: Any) -> Any:
        yield from lend(self, project, amount, home, cell)
        cell.parts[project] += amount
        self._touched.add(project)

    monkeypatch.setattr(bench.Simulation, "_transfer", lend_twice)
    with pytest.raises(bench.Exceeded, match=r"the parts of project 0 are \d+ GiB, its quota 30"):
        _run(bench, _world(bench, [_request(bench, 0, 1.0, 20)], quotas=(30,)), "on demand")


def test_a_pool_beyond_its_capacity_is_noticed(bench: Any) -> None:
    world = _world(bench, [], quotas=(500,))
    simulation = bench.Simulation(world, _policy(bench, "on demand"), [])
    audit = bench.Audit(world)
    audit.add(bench.Booking(simulation.cells[1], 0, 0, 60))
    with pytest.raises(bench.Exceeded, match=r"pool \(1, 0\) has 120 GiB, its limit is 100 GiB"):
        audit.add(bench.Booking(simulation.cells[1], 0, 0, 60))


def test_a_counter_that_is_not_the_sum_of_its_volumes_is_noticed(bench: Any) -> None:
    simulation = _run(bench, _world(bench, [_request(bench, 0, 1.0, 20)]), "on demand")
    simulation._audit.count_all(simulation.cells)
    for counters in (simulation.cells[0].used, simulation.cells[1].free):
        counters[0] += 1
        with pytest.raises(bench.Exceeded):
            simulation._audit.count_all(simulation.cells)
        counters[0] -= 1


def test_one_ledger_refuses_beyond_capacity_and_quota_and_spreads_groups(bench: Any) -> None:
    requests = [
        _request(bench, 0, 1.0, 60, life=10.0),
        _request(bench, 1, 2.0, 50, group=True),  # one of the cells has 40 GiB
        _request(bench, 2, 3.0, 90),
        _request(bench, 3, 4.0, 1, project=1),  # beyond the quota
        _request(bench, 4, 20.0, 50, group=True),  # only one cell has room
        _request(bench, 5, 21.0, 95),
    ]
    admitted = bench.decide_with_one_ledger(_world(bench, requests, quotas=(1000, 0)))
    assert admitted == [True, False, True, False, False, True, False]


@pytest.mark.parametrize(
    ("policy", "admitted"),
    [("equal parts", False), ("on demand", False), ("on demand, return", False), ("on demand, return, recall", True)],
)
def test_a_quota_that_is_lent_elsewhere_is_recalled_by_one_policy_alone(
    bench: Any, policy: str, admitted: bool
) -> None:
    """After the end of the group both cells have unused parts, so that neither gets the quota of 80 GiB alone."""
    requests = [_request(bench, 0, 1.0, 30, life=1.0, group=True), _request(bench, 1, 10.0, 80)]
    simulation = _run(bench, _world(bench, requests), policy)
    assert sum(cell.used[0] for cell in simulation.cells) == (80 if admitted else 0)
    assert simulation.outcome.causes == ({} if admitted else {bench.Cause.QUOTA: 1})
    assert (simulation.outcome.messages > 0) == (policy != "equal parts")


def test_quota_of_a_lost_home_is_out_of_reach_until_it_is_back_and_its_volumes_stay_counted(bench: Any) -> None:
    requests = [
        _request(bench, 0, 1.0, 40, life=52.0),
        _request(bench, 1, 55.0, 90),  # the home is lost, and with it the only part that is large enough
        _request(bench, 2, 61.0, 90),
    ]
    simulation = _run(bench, _world(bench, requests), "on demand, return, recall")
    assert simulation.outcome.causes == {bench.Cause.LOST: 1}
    assert simulation.outcome.requests_while_lost == 0  # simulate() counts these
    assert simulation.outcome.causes_while_lost == {bench.Cause.LOST: 1}
    assert sum(cell.used[0] for cell in simulation.cells) == 90


@pytest.mark.parametrize(("crash", "kept"), [(0, 20), (1, 0), (2, 0), (3, 20)])
def test_a_crash_at_each_step_of_a_group_leaves_both_volumes_or_none(bench: Any, crash: int, kept: int) -> None:
    simulation = _run(bench, _world(bench, [_request(bench, 0, 1.0, 10, group=True, crash=crash)]), "on demand")
    assert [cell.used[0] for cell in simulation.cells] == [kept // 2, kept // 2]
    assert [cell.free for cell in simulation.cells] == [[100 - kept // 2], [100 - kept // 2]]
    assert simulation.outcome.causes == ({} if kept else {bench.Cause.LEASE: 1})
    assert set(simulation._leased.values()) == {0}


def test_a_lease_holds_room_that_one_ledger_would_have_given(bench: Any) -> None:
    requests = [
        _request(bench, 0, 1.0, 90, group=True, crash=2, life=0.5),
        _request(bench, 1, 5.0, 90, project=1),
        _request(bench, 2, 20.0, 90, project=1),  # the leases have ended
    ]
    simulation = _run(bench, _world(bench, requests, quotas=(1000, 1000)), "on demand")
    assert simulation.outcome.causes == {bench.Cause.LEASE: 2}
    assert [sum(cell.used[project] for cell in simulation.cells) for project in (0, 1)] == [0, 90]


def test_stale_figures_refuse_a_request_after_the_last_try(bench: Any) -> None:
    """The figures of both cells are from the beginning; the second try is the one in the cell with room."""
    requests = [_request(bench, 0, 5.1, 80), _request(bench, 1, 5.2, 90)]
    outcomes = {}
    for tries in (1, 2):
        worlds = [
            _world(bench, requests, quotas=(1000,), tries=tries, interval=1000.0, seed=seed) for seed in range(20)
        ]
        outcomes[tries] = sum((_run(bench, world, "on demand").outcome.causes for world in worlds), bench.Counter())
    assert 0 < outcomes[1][bench.Cause.FIGURES] < 20
    assert outcomes[2] == {}


def test_the_arithmetic_divides_each_load_by_what_one_ledger_takes(arithmetic: Any) -> None:
    size = arithmetic.Installation(volumes=864e5, life=10.0, per_pool=100.0, database_bytes=arithmetic.GIB)
    costs = arithmetic.UnitCosts(rows=3.0, row_bytes=2**20, key_bytes=0.0, listing=1e-5, placements=100, report=1e-4)
    loads = {line.name: line for line in arithmetic.lines(size, costs)}
    assert loads["placements"].value == pytest.approx(100)
    assert loads["placements"].cells == 2
    assert loads["database"].value == pytest.approx(84375)
    assert loads["database"].cells == 84375
    assert loads["listings"].value == pytest.approx(2.88)
    assert loads["listings"].cells == 6
    assert loads["reports"].value == pytest.approx(1.44)
    assert loads["rows"].value == pytest.approx(864e5 * 4.4)
    assert next(iter(loads)) == "database"
    text = arithmetic.table(size, costs)
    assert "8.64e+07 volumes / 10 days" in text
    assert len(text.splitlines()) == 1 + len(loads)


def test_rows_bytes_and_a_listing_are_measured_in_a_real_ledger(arithmetic: Any, tmp_path: pathlib.Path) -> None:
    costs = arithmetic.measure(tmp_path, volumes=500, pools=5)
    assert costs.rows == 3
    assert 600 < costs.row_bytes < 3000
    assert 100 < costs.key_bytes < costs.row_bytes / 2
    assert costs.listing > 0


def test_the_command_prints_tables_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    command = importlib.import_module("cells")
    words = [
        "--cells",
        "3",
        "--projects",
        "20",
        "--requests",
        "200",
        "--spread",
        "2",
        "--lost",
        "2",
        "--life",
        "20",
        "--seed",
        "5",
    ]
    assert command.main(words) == 0
    text = capsys.readouterr().out
    assert "3 cells of 8 pools, 20 projects, 200 requests, 20 a second, seed 5" in text
    assert text.count("on demand, return, recall") == 3
    assert command.main([*words, "--json"]) == 0
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert len(policies) == 4
    assert command.main(["--arithmetic", "--listed", "200", "--json"]) == 0
    assert {"listings", "database"} < {line["name"] for line in json.loads(capsys.readouterr().out)["loads"]}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--cells", "3", "--spread", "4"], "argument --spread: 4 is more than the 3 cells of --cells"),
        (["--cells", "1"], "argument --cells: 1 is less than 2"),
        (["--requests", "100", "--lost", "6"], "argument --lost: 100 requests take only 5 s"),
        (["--interval", "0"], "argument --interval: 0 is not positive"),
        (["--groups", "1.5"], "argument --groups: 1.5 is no share between 0 and 1"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    words: list[str], error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    with pytest.raises(SystemExit):
        importlib.import_module("cells").main(words)
    assert error in capsys.readouterr().err


def test_a_wrong_step_ends_the_command_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    command = importlib.import_module("cells")
    monkeypatch.setattr(importlib.import_module("cells_simulation").Cell, "unused", lambda self, project: 1000)
    assert command.main(["--requests", "200", "--lost", "2", "--life", "20"]) == 1
    assert re.search(r"^cells: (the parts of )?project \d+ ", capsys.readouterr().err, re.MULTILINE)
