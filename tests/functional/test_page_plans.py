# SPDX-License-Identifier: Apache-2.0
"""The sections of the web page about plans of moves, in a real Chromium."""

import pathlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.functional import browser as browser_module
from tests.functional.browser import Browser, Tab
from tests.functional.page_server import PageServer, no_shared_results, page_server
from tonnage.extensions.moves.planning.plan import MovePlan, PlannedMove, PoolChange, PoolLevel, StayingVolume
from tonnage.extensions.moves.records import plan_records, tables
from tonnage.extensions.moves.records.plan_limits import Limits
from tonnage.extensions.moves.records.plan_records import NewPlan

browser = browser_module.browser

PLAN = "11111111-1111-4111-8111-111111111111"
OLD, NEW = "box@old#p", "box@new#p"
GOAL = "empty box@old"


def level(promised_gb: float, used_gb: float | None = None) -> PoolLevel:
    return PoolLevel(promised_gb=promised_gb, promise_limit_gb=2000.0, used_gb=used_gb, physical_limit_gb=950.0)


def move(number: int, size_gb: int) -> PlannedMove:
    return PlannedMove(
        number=number,
        volume_id=f"{number:08}-1111-4111-8111-111111111111",
        size_gb=size_gb,
        source=OLD,
        target=NEW,
        reason=f"{size_gb} GiB goes to {NEW}, the best of 3 candidates",
        after=(1,) if number == 2 else (),
        source_level=level(0),
        target_level=level(size_gb),
    )


PLAN_OF_TWO = MovePlan(
    goal=GOAL,
    is_reached=False,
    outcome="1 of 3 volumes with 5 GiB stay in box@old",
    moves=(move(1, 30), move(2, 10)),
    staying=(
        StayingVolume(
            volume_id="00000009-1111-4111-8111-111111111111", size_gb=5, pool=OLD, reason="the volume is in-use"
        ),
    ),
    pools=(
        PoolChange(pool=OLD, before=level(45, 20.0), after=level(5, 20.0)),
        PoolChange(pool=NEW, before=level(100), after=level(140)),
    ),
)


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[PageServer]:
    """A server with two pools and no plan."""
    with no_shared_results(), page_server(tmp_path, extensions=["page", "moves"]) as running:
        for backend in ("box@old", "box@new"):
            running.add_backend(backend, {"p": {}})
        yield running


def start(server: PageServer, plan: MovePlan = PLAN_OF_TWO, mover: str = "") -> None:
    """Record a plan whose first move is under way."""
    new_plan = NewPlan(
        id=PLAN, goal="empty", arguments={"target": "box@old"}, limits=Limits(hours="22-06"), user_id="ann", mover=mover
    )
    assert server.ledger.run(plan_records.insert, new_plan, plan)
    server.ledger.run(plan_records.start, PLAN, [1])


def cells(tab: Tab, caption: str) -> list[list[str]]:
    """Return the texts of the rows of a table."""
    rows = tab.page.get_by_role("table", name=caption).locator("tbody tr")
    return [row.locator("td").all_inner_texts() for row in rows.all()]


@pytest.mark.heavy
def test_plans_are_listed_with_their_progress(browser: Browser, server: PageServer) -> None:
    with browser.tab(server.url) as tab:
        tab.open("plans", "Plans")
        assert "No plan was carried out." in tab.text()
        start(server)
        server.ledger.run(plan_records.end_step, PLAN, 1, tables.MOVED, None)
        tab.open("plans", "Plans")
        [[goal, state, moved, left, message, started, user, mover]] = cells(tab, "Plans")
        assert (goal, state, moved) == (GOAL, "running", "1 of 2 moves, 30 GiB of 40 GiB")
        assert (message, user, started.endswith(" s ago"), left.endswith(" s in the hours 22-06")) == (
            "none",
            "ann",
            True,
            True,
        )
        assert mover == "Tonnage"
        assert tab.breaches() == []
        server.ledger.run(plan_records.stop, PLAN)
        tab.open("plans", "Plans")
        [[_, state, _, left, *_]] = cells(tab, "Plans")
        assert (state, left) == ("stopped", "ended")
        tab.page.get_by_role("link", name=GOAL).click()
        tab.wait_until_loaded(f"Plan {PLAN}")
        assert tab.messages == []


@pytest.mark.heavy
def test_a_plan_has_its_pools_before_and_after_and_its_moves(browser: Browser, server: PageServer) -> None:
    start(server)
    with browser.tab(server.url) as tab:
        tab.open(f"plan?id={PLAN}", f"Plan {PLAN}")
        assert cells(tab, "Pools before and after") == [
            [NEW, "100 GiB of 1.95 TiB", "unknown", "140 GiB of 1.95 TiB", "unknown"],
            [OLD, "45 GiB of 1.95 TiB", "20 GiB of 950 GiB", "5 GiB of 1.95 TiB", "20 GiB of 950 GiB"],
        ]
        first, second = cells(tab, "Moves")
        assert first[2:7] == ["30 GiB", OLD, NEW, "none", "moving"]
        assert (second[2:8], second[8]) == (
            ["10 GiB", OLD, NEW, "1", "waiting", "not begun"],
            f"10 GiB goes to {NEW}, the best of 3 candidates",
        )
        assert cells(tab, "Volumes that stay") == [
            ["00000009-1111-4111-8111-111111111111", "5 GiB", OLD, "the volume is in-use"]
        ]
        text = tab.text()
        assert f"{GOAL}: running" in text
        assert "time left" in text.lower()
        assert "0 of 2 moves, 0 GiB of 40 GiB" in text
        assert "2 at a time for a backend, 8 in all, fails at 3 failures, hours 22-06" in text
        for verb in ("show", "pause", "resume", "stop"):
            assert f"tonnage plan {verb} {PLAN} --url {server.url}" in text
        assert tab.page.locator("nav [aria-current=page]").inner_text() == "Plans"
        # The page shows the progress without a reload.
        server.ledger.run(plan_records.end_step, PLAN, 1, tables.STEP_FAILED, "the copy failed")
        server.ledger.run(plan_records.stop, PLAN)
        tab.wait_for_text(f"{GOAL}: stopped stopped by an administrator")
        assert [(row[6], row[8]) for row in cells(tab, "Moves")] == [
            ("failed", "the copy failed"),
            ("skipped", "the plan is stopped"),
        ]
        assert "0 of 2 moves, 0 GiB of 40 GiB" in tab.text()
        assert "time left" not in tab.text().lower()
        assert "tonnage plan pause" not in tab.text()
        assert tab.breaches() == []
        assert tab.messages == []


@pytest.mark.heavy
def test_a_plan_for_a_cloud_names_its_mover(browser: Browser, server: PageServer) -> None:
    start(server, mover="cinder")
    with browser.tab(server.url) as tab:
        tab.open("plans", "Plans")
        assert cells(tab, "Plans")[0][-1] == "Cinder"
        tab.open(f"plan?id={PLAN}", f"Plan {PLAN}")
        assert "moved by\ncinder" in tab.text().lower()


@pytest.mark.heavy
def test_a_pool_that_a_plan_no_longer_uses_has_no_levels_after_it(browser: Browser, server: PageServer) -> None:
    start(server)
    again = replace(PLAN_OF_TWO, moves=(), pools=PLAN_OF_TWO.pools[:1])
    assert server.ledger.run(plan_records.add_generation, PLAN, 1, again, "waits", 0.0)
    with browser.tab(server.url) as tab:
        tab.open(f"plan?id={PLAN}", f"Plan {PLAN}")
        assert cells(tab, "Pools before and after") == [
            [OLD, "45 GiB of 1.95 TiB", "20 GiB of 950 GiB", "5 GiB of 1.95 TiB", "20 GiB of 950 GiB"],
            [NEW, "100 GiB of 1.95 TiB", "unknown", "not used", "not used"],
        ]
        assert tab.breaches() == []
        assert tab.messages == []


@pytest.mark.heavy
@pytest.mark.parametrize(("dark", "width"), [(False, 320), (True, 1280)])
def test_a_plan_with_many_moves_is_short_and_accessible(
    browser: Browser, server: PageServer, dark: bool, width: int
) -> None:
    many = replace(PLAN_OF_TWO, moves=tuple(move(number, 1) for number in range(1, 201)))
    start(server, many)
    with browser.tab(server.url, dark=dark, width=width) as tab:
        tab.open(f"plan?id={PLAN}", f"Plan {PLAN}")
        rows = cells(tab, "Moves")
        assert (len(rows), rows[0][6], rows[49][0]) == (50, "moving", "50")
        assert tab.breaches() == []
        assert not tab.is_wider_than_the_window()
        assert tab.messages == []


@pytest.mark.heavy
def test_a_plan_that_is_not_there_is_an_error(browser: Browser, server: PageServer) -> None:
    with browser.tab(server.url) as tab:
        tab.visit("plan?id=none")
        tab.wait_for_text("There is no such object. plan none could not be found")
