# SPDX-License-Identifier: Apache-2.0
"""Drivers that lie, and honest ones: through real reports, listings and the ledger."""

import itertools
import logging
import os
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.drivers import configured
from tests.unit.ledger import faults
from tests.unit.scheduler.driven import Lie, Report, Site
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.reports import audit_rules
from tonnage.capacity.reports.audit_rules import Breach
from tonnage.drivers import loader
from tonnage.drivers.base import Driver
from tonnage.drivers.filesystem import volume_files
from tonnage.drivers.memory.driver import MemoryDriver
from tonnage.ledger.inventory import audit_findings
from tonnage.ledger.repair import backend_removal
from tonnage.scheduler.observers.driver_audit import AuditedReport, DriverAudit


class WithoutAutoRatio(MemoryDriver):
    """A driver whose pools cannot have the ratio ``auto``."""

    supports_auto_ratio = False


def memory(folder: Path, pools: str = "pool", kind: type[Driver] = MemoryDriver) -> Driver:
    text = (
        f"[mem]\nvolume_driver = memory\nmemory_pools = {pools}\nmemory_pool_size_gb = 20\n"
        "memory_provisioning = thin\nmax_over_subscription_ratio = 2.0\n"
    )
    return loader.build(kind, "host@backend", "mem", configured.conf(folder, text))


def files(folder: Path, draw: random.Random) -> Driver:
    kind = draw.choice(["thin", "thick", "both"])
    text = (
        f"[fs]\nvolume_driver = filesystem\nfilesystem_path = {folder}/volumes\nfilesystem_size_limit_gb = 5\n"
        f"filesystem_provisioning = {kind}\nmax_over_subscription_ratio = {draw.choice(['auto', '2.5', '1.0'])}\n"
        f"reserved_percentage = {draw.choice([0, 20])}\n"
    )
    return loader.load("host@backend", "fs", configured.conf(folder, text))


def setting(field: str, value: object) -> Lie:
    return lambda report: report[0].update({field: value})


def without(field: str) -> Lie:
    return lambda report: report[0].pop(field)


def physical(report: Report) -> None:
    report[0]["provisioned_capacity_gb"] = report[0]["total_capacity_gb"] - report[0]["free_capacity_gb"]


def half(report: Report) -> None:
    report[0]["provisioned_capacity_gb"] = round(report[0]["provisioned_capacity_gb"] / 2, 2)


def with_snapshots(report: Report) -> None:
    report[0]["provisioned_capacity_gb"] = round(report[0]["provisioned_capacity_gb"] + 5, 2)


def neither(report: Report) -> None:
    report[0].update(thin_provisioning_support=False, thick_provisioning_support=False)


LIES = [
    (physical, Breach.PROVISIONED_IS_PHYSICAL),
    (half, Breach.PROVISIONED_TOO_SMALL),
    (with_snapshots, Breach.PROVISIONED_TOO_LARGE),
    (without("provisioned_capacity_gb"), Breach.PROVISIONED_REQUIRED),
    (without("max_over_subscription_ratio"), Breach.RATIO_REQUIRED),
    (neither, Breach.THIN_OR_THICK),
    (setting("allocated_capacity_gb", 3), Breach.NO_ALLOCATED),
    (setting("free_capacity_gb", 20.5), Breach.FREE_WITHIN_TOTAL),
    (setting("total_capacity_gb", 20.123), Breach.TWO_DECIMALS),
    (setting("max_over_subscription_ratio", 0.5), Breach.RATIO_RANGE),
    (setting("max_over_subscription_ratio", "auto"), Breach.AUTO_UNDECLARED),
    (setting("total_capacity_gb", "infinite"), Breach.UNBOUNDED),
    (setting("free_capacity_gb", "unknown"), Breach.UNBOUNDED),
    (setting("reserved_percentage", 120), Breach.RESERVED_RANGE),
]


@pytest.mark.parametrize(
    ("lie", "breach", "looks_once"),
    [
        *((lie, breach, True) for lie, breach in LIES),
        *((lie, breach, False) for lie, breach in LIES if breach in audit_rules.VOLUME_BREACHES),
    ],
    ids=lambda value: str(value) if isinstance(value, Breach) else {True: "ours", False: "theirs"}.get(value, ""),
)
def test_each_lie_is_found_out_told_once_and_forgotten_when_it_is_mended(
    tmp_path: Path,
    lie: Lie,
    breach: Breach,
    looks_once: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site(memory(tmp_path, kind=WithoutAutoRatio), looks_once=looks_once)
    for size in (1, 2, 2):
        site.made(size)
    assert site.look() == {}
    site.mend(lie)
    for _ in range(3):
        found = site.look()
    assert found == {"pool": {breach.value}}
    told = [record.getMessage() for record in caplog.records if record.name.endswith("driver_audit")]
    assert len(told) == 1
    assert told[0].startswith(f"Pool host@backend#pool: its report breaks {breach}: ")
    # Another scheduler, or this one after a restart, knows it from the ledger and says no more.
    caplog.clear()
    site.start_scheduler()
    assert site.look() == found
    site.mend()
    assert site.look() == {}
    told = [record for record in caplog.records if record.name.endswith("driver_audit")]
    assert [record for record in told if record.levelno >= logging.WARNING] == []


def test_figures_that_stand_still(tmp_path: Path) -> None:
    """The first report is told for ever. That something is missing from it is one breach, that it stays another."""
    first: Report = []

    def stuck(report: Report) -> None:
        first.extend(first or report)
        report[:] = [dict(first[0])]

    site = Site(memory(tmp_path))
    site.made(1)
    site.mend(stuck)
    assert site.look() == {}
    for _ in range(4):
        site.made(1)
        found = site.look(seconds=4000)
    assert found["pool"] == {Breach.PROVISIONED_TOO_SMALL, Breach.STANDS_STILL}


def test_many_pools_that_break_the_same_are_some_lines_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def lie(report: Report) -> None:
        for pool in report:
            pool["allocated_capacity_gb"] = 0

    site = Site(memory(tmp_path, pools="30"), lie)
    found = site.look()
    assert len(found) == 30
    told = [record.getMessage() for record in caplog.records if record.name.endswith("driver_audit")]
    assert len(told) == 11
    assert told[-1].startswith("Backend host@backend: 20 pool(s) more break no_allocated; see ")


def test_findings_go_with_their_pool_and_backend(tmp_path: Path) -> None:
    pools: Report = []

    def lie(report: Report) -> None:
        for pool in report:
            pool["allocated_capacity_gb"] = 0
        report[:] = report[: None if not pools else 1]

    site = Site(memory(tmp_path, pools="a, b"), lie)
    assert set(site.look()) == {"a", "b"}
    pools.append({})
    assert set(site.look()) == {"a"}
    site.database.run(backend_removal.remove_backend, "host@backend", -1.0)
    with site.database.reading() as session:
        assert audit_findings.load(session) == []


def test_a_pool_that_is_always_at_work_is_held_against_what_is_left_alone(tmp_path: Path) -> None:
    """Where its driver cannot look once."""
    site = Site(memory(tmp_path), half, looks_once=False)
    site.made(4)
    site.create(1)
    for _ in range(3):
        found = site.look()
    assert site.agent.commands, "something is under way"
    assert found == {"pool": {Breach.PROVISIONED_TOO_SMALL}}
    # Nothing tells whether it is too large.
    site.mend(with_snapshots)
    assert site.look() == {"pool": {Breach.PROVISIONED_TOO_SMALL}}
    site.work()
    for _ in range(3):
        found = site.look()
    assert found == {"pool": {Breach.PROVISIONED_TOO_LARGE}}


@pytest.mark.parametrize("looks_once", [True, False], ids=["ours", "theirs"])
def test_a_file_of_others_that_grows_all_the_time_accuses_nobody(tmp_path: Path, looks_once: bool) -> None:
    site = Site(files(tmp_path, random.Random(0)), looks_once=looks_once)
    site.made(3)
    others = Others(tmp_path / "volumes")
    others.appear()
    site.watched.happens = others.grow
    for _ in range(4):
        others.grow()
        assert site.look() == {}
    # Nor does it hide who leaves out other volumes.
    site.mend(setting("provisioned_capacity_gb", 2))
    for _ in range(3):
        found = site.look()
    assert found == {"backend": {Breach.PROVISIONED_TOO_SMALL}}


def test_a_driver_that_counts_snapshots_is_found_while_other_pools_are_busy(tmp_path: Path) -> None:
    draw = random.Random(0)
    site = Site(files(tmp_path, draw), with_snapshots)
    others = Others(tmp_path / "volumes")
    site.watched.happens = lambda: others.act(draw)
    for _ in range(3):
        others.appear()
        found = site.look()
    assert found == {"backend": {Breach.PROVISIONED_TOO_LARGE}}


class Others:
    """Those who use a folder without asking: their files appear, grow, shrink and vanish."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = itertools.count()
        self._old: list[Path] = []
        self._new: list[Path] = []

    def appear(self, size: int = 1 << 30) -> None:
        path = self._folder / f"other{next(self._number)}"
        path.touch()
        os.truncate(path, size)
        self._new.append(path)

    def grow(self, by: int = 100 << 20) -> None:
        for path in (*self._old, *self._new):
            os.truncate(path, max(path.stat().st_size + by, 0))

    def act(self, draw: random.Random, *, come_and_go: bool = True) -> None:
        """Do something. What goes has been there since :meth:`rest` if not ``come_and_go``."""
        going = [*self._old, *self._new] if come_and_go else self._old
        what = draw.random()
        if what < 0.3:
            self.appear(draw.randint(1, 2 << 30))
        elif what < 0.6 and going:
            path = draw.choice(going)
            (self._old if path in self._old else self._new).remove(path)
            path.unlink()
        elif what < 0.8:
            self.grow(draw.randint(-(1 << 30), 1 << 30))

    def rest(self) -> None:
        self._old += self._new
        self._new = []


@pytest.mark.parametrize("looks_once", [True, False], ids=["ours", "theirs"])
@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(5, 500))])
def test_honest_drivers_are_not_accused(
    tmp_path: Path, seed: int, looks_once: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real files: written to, made and deleted by others too, while commands wait and in the middle of each look.

    Of a driver that cannot look once, what comes and goes within a look is not seen.
    """
    draw = random.Random(seed)
    site = Site(files(tmp_path, draw), looks_once=looks_once)
    volumes = tmp_path / "volumes"
    others, scan = Others(volumes), volume_files.files

    def meddle() -> None:
        others.act(draw, come_and_go=looks_once)

    def scanned(folder: int) -> Iterator[volume_files.File]:
        for file in scan(folder):
            meddle()
            yield file

    for _ in range(12):
        what = draw.random()
        present = sorted(volumes.glob("[!.o]*"))
        if what < 0.1 and present:
            draw.choice(present).unlink()
        elif what < 0.3 and present:
            with draw.choice(present).open("r+b") as file:
                file.write(bytes(draw.randint(1, 1 << 20)))
        elif what < 0.8:
            site.act(draw)
        else:
            meddle()
        if draw.random() < 0.7:
            site.work()
        with monkeypatch.context() as patched:
            if looks_once:
                patched.setattr(volume_files, "files", scanned)
            site.watched.happens = meddle
            assert site.look(seconds=draw.choice([1.0, 60.0, 4000.0])) == {}
        others.rest()
    assert "breaks" not in caplog.text
    # Thick ones are as large as they look, and folders of tests are kept.
    shutil.rmtree(volumes)


def test_findings_are_read_again_once_they_have_changed() -> None:
    world = World({}).started()
    [(backend_id,)] = world.rows("SELECT id FROM backends")
    driver_audit, name = DriverAudit(world.database), f"{BACKEND}#p"
    loads: list[object] = []

    def settled(*found: tuple[audit_findings.Key, audit_findings.Evidence]) -> Mapping[str, Mapping[str, str]]:
        world.database.run(audit_findings.store, backend_id, dict(found), lambda key: True)
        with faults.executions(world.engine, "FROM findings JOIN backends") as loaded:
            driver_audit.refresh()
            loads.append(list(loaded))
            driver_audit.refresh()
        assert len(loaded) == 1
        return driver_audit.findings

    first, second = ("p", "one"), ("p", "two")
    assert settled() == {}
    assert settled((first, audit_findings.Evidence("is so"))) == {name: {"one": "is so"}}
    assert settled((second, audit_findings.Evidence("may be", 3))) == {}
    assert settled((second, audit_findings.Evidence("is so"))) == {name: {"two": "is so"}}
    assert settled() == {}
    assert len(loads) == 5


def test_only_pools_that_have_changed_are_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({name: StoragePool(20, 2.0, thin=True, thick=False) for name in ("p0", "p1", "p2")}).started()
    checked: list[str] = []

    def check(pool: Mapping[str, Any], supports_auto: bool | None) -> dict[Breach, str]:
        checked.append(pool["pool_name"])
        return original(pool, supports_auto)

    original = audit_rules.check_report
    monkeypatch.setattr(audit_rules, "check_report", check)

    def report(**changes: Mapping[str, object]) -> list[str]:
        message = world.agent.look()
        pools = [{**pool, **changes.get(pool["pool_name"], {})} for pool in message.pools]
        world.deliver(replace(message, pools=pools))
        checked.clear()
        world.audit.work()
        return sorted(checked)

    report()
    assert report() == []
    assert report(p1={"reserved_percentage": 101}) == ["p1"]
    assert report(p1={"reserved_percentage": 101}) == []
    assert audit_findings_of(world) == [("p1", Breach.RESERVED_RANGE.value)]
    assert report(p1={"reserved_percentage": 101}, p2={"free_capacity_gb": 3.125}) == ["p2"]
    assert len(audit_findings_of(world)) == 2
    assert report(p2={"free_capacity_gb": 3.125}) == ["p1"]
    assert audit_findings_of(world) == [("p2", Breach.TWO_DECIMALS.value)]
    assert report() == ["p2"]
    assert audit_findings_of(world) == []
    assert report() == []


def test_the_reports_of_a_backend_that_reports_elsewhere_and_all_about_one_that_is_gone_are_forgotten() -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    audit = DriverAudit(world.database, lambda: world.now)
    reports = [AuditedReport(backend=name, pools=[{"pool_name": "p"}]) for name in ("h@gone", BACKEND)]
    for report in reports:
        audit.inspect(1, report)
    for world.now in (500.0, 700.0):
        audit.refresh()
        assert audit._memories["h@gone"].report is (reports[0] if world.now == 500 else None)
        audit.compare(1, world.agent.listing())
    for world.now in (86_000.0, 87_000.0):
        audit.inspect(1, reports[1])
        audit.refresh()
    assert list(audit._memories) == [BACKEND]
    assert audit._memories[BACKEND].report is reports[1]


def audit_findings_of(world: World) -> list[tuple[str, str]]:
    """Return pool and breach of the findings in the ledger."""
    with world.database.reading() as session:
        return sorted(row.key for row in audit_findings.load(session))
