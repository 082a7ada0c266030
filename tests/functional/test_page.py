# SPDX-License-Identifier: Apache-2.0
"""The web page in a real Chromium."""

import datetime
import json
import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from oslo_context.context import RequestContext
from playwright import sync_api
from sqlalchemy import orm

from tests.functional import browser as browser_module
from tests.functional.browser import Browser, Tab
from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment, run_process, run_program, standalone
from tests.functional.page_server import COMING, PageServer, no_shared_results, page_server
from tests.servers.base import wait_for
from tests.unit.ledger import faults
from tonnage.api.http import request_context
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors
from tonnage.extensions.history import history_writer, tables
from tonnage.ledger import models
from tonnage.ledger.db import database

browser = browser_module.browser

#: Texts that would do something as HTML, as an attribute or as a line. A pool's name cannot have a line break.
SCRIPT = "<img src=x onerror=\"console.error('ran')\"><script>console.error('ran')</script>"
QUOTES = '"\'><b a="`${1}'

_SHARED = r"shared room [\d.]+"

#: Rows of the history without the flows of a day.
TYPE = {"type_id": "", "volumes": 9, "allocated_gb": 9, "creates": 3, "retyped_gb": 0}
POOL = {
    **{"provisioned_gb": 1.0, "in_flight_max_gb": 0, "allocated_gb": 0},
    **{"moved_gb": 0, "deleted_sum_gb": 0, "moved_sum_gb": 0},
}


@pytest.fixture(scope="module")
def tonnage() -> Iterator[Deployment]:
    """A standalone with volumes of 3 and 1 GiB."""
    with standalone() as deployment:
        for size in (3, 1):
            deployment.rest.wait_until_available(deployment.rest.create(size))
        deployment.rest.create_type("gold", provisioning__type="thin")
        deployment.rest.refusal(500, "gold")
        yield deployment


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[PageServer]:
    """A server with an empty ledger, which each request reads again."""
    with no_shared_results(), page_server(tmp_path) as running:
        yield running


def sections(deployment: Deployment) -> dict[str, str]:
    """Return the headings of the sections by their addresses."""
    pool = deployment.pool("thin")
    volume = deployment.rest.get("volumes")["volumes"][0]["id"]
    return {
        "now": "Now",
        "soon": "Soon",
        "pools": "Pools",
        "pools?view=map": "Pools",
        f"pool?name={pool.replace('#', '%23')}": f"Pool {pool}",
        "backends": "Backends",
        "volumes": "Volumes",
        f"volume?id={volume}": f"Volume {volume}",
        "types": "Types",
        "refusals": "Refusals",
        f"why?id={volume}": "Why?",
        "explain?size=500&type=gold": "Explain",
        "what-if": "What if?",
        "plans": "Plans",
        "ledger": "Ledger",
    }


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("dark", "width"),
    [
        pytest.param(False, 1280, id="light"),
        pytest.param(True, 320, id="dark and narrow"),
        pytest.param(False, 320, id="light and narrow"),
        pytest.param(True, 1600, id="dark and wide"),
    ],
)
def test_sections_are_accessible(browser: Browser, tonnage: Deployment, dark: bool, width: int) -> None:
    with browser.tab(tonnage.rest.url, dark=dark, width=width) as tab:
        for address, heading in sections(tonnage).items():
            tab.open(address, heading)
            assert tab.breaches() == [], address
            assert not tab.is_wider_than_the_window(), address
        assert tab.messages == []


@pytest.mark.heavy
def test_no_width_needs_a_scroll_to_the_side(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        for address, heading in sections(tonnage).items():
            tab.open(address, heading)
            for width in (320, 500, 860, 1201, 1600):
                tab.page.set_viewport_size({"width": width, "height": 800})
                assert not tab.is_wider_than_the_window(), (address, width)


@pytest.mark.heavy
def test_the_page_shows_the_figures_of_the_command(browser: Browser, tonnage: Deployment) -> None:
    def pools() -> dict[str, dict[str, Any]]:
        printed = run_program("tonnage", "pools", "--config-file", tonnage.conf, "-f", "json").output
        return {pool["pool"]: pool for pool in json.loads(printed)}

    # The first reports after the start may not tell apart backends that share a storage.
    wait_for(lambda: all(pool["total_bytes"] for pool in pools().values()), "all pools have figures")
    found = pools()
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("pools", "Pools")
        rows = tab.page.locator("tbody tr")
        assert rows.count() == len(found) == 2
        for name, pool in found.items():
            wait_for(
                lambda: f"of {pool['total_bytes'] / 2**30:g} GiB" in rows.filter(has_text=name).inner_text(),  # noqa: B023
                f"the page shows {name}",
            )
        for name, pool in found.items():
            tab.open(f"pool?name={name.replace('#', '%23')}", f"Pool {name}")
            placed = tab.page.locator(".facts div").filter(has_text="placed by Tonnage").inner_text()
            assert placed.split() == ["placed", "by", "Tonnage", f"{pool['allocated_bytes'] / 2**30:g}", "GiB"]


def set_range(tab: Tab, label: str, value: float) -> None:
    """Move a slider."""
    tab.page.get_by_label(label).evaluate(
        "(it, value) => { it.value = value; it.dispatchEvent(new Event('input', { bubbles: true })); }", str(value)
    )


def cells(line: str) -> list[str]:
    """Return the cells of a line of a table that a command has printed."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def table_rows(lines: list[str]) -> list[list[str]]:
    """Return the rows of a table that a command has printed; a row whose first cell is empty goes on with the last."""
    rows: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            continue
        row = cells(line)
        if rows and not row[0]:
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], row, strict=True)]
        else:
            rows.append(row)
    return rows


def commanded(tab: Tab) -> tuple[str, list[str]]:
    """Return the output of the command that the page shows, and its arguments."""
    program, *words = shlex.split(tab.page.locator(".command").inner_text())
    assert program == "tonnage"
    return run_program(program, *words).output, words


@pytest.mark.heavy
def test_the_sliders_say_what_the_command_says(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("what-if", "What if?")
        tab.page.get_by_label("Size in GiB").fill("45")
        set_range(tab, "Ratio: ", 3)
        tab.page.get_by_label("Of").first.fill(tonnage.pool("thin"))
        tab.wait_for("document.querySelector('.command')?.innerText.includes('#thin=3')")
        output, words = commanded(tab)
        assert words[:4] == ["what-if", "45", "--ratio", f"{tonnage.pool('thin')}=3"]
        row = next(line for line in output.splitlines() if line.startswith("| 1 "))
        assert cells(row) == tab.page.locator(".outlook td").all_inner_texts()
        assert cells(row)[2:] == ["refused", tonnage.pool("thin"), "yes"]

        tab.page.get_by_label("A lost pool or backend").check()
        tab.page.get_by_label("Name").first.fill(tonnage.pool("thin").partition("#")[0])
        tab.page.get_by_label("Other ratio").uncheck()
        set_range(tab, "Reserved: ", 20)
        tab.page.get_by_label("A pool more").check()
        set_range(tab, "Total: ", 100)
        tab.page.get_by_label("thin volumes").uncheck()
        tab.page.get_by_label("Size in GiB").fill("90")
        tab.wait_for("document.querySelector('.answer.refused')?.innerText.startsWith('1: No pool for 90 GiB')")
        output, words = commanded(tab)
        assert {"--reserved", "--lose", "--add"} < set(words)
        row = next(line for line in output.splitlines() if line.startswith("| 1 "))
        assert cells(row) == tab.page.locator(".outlook td").all_inner_texts()
        message = next(line for line in output.splitlines() if line.startswith("1: "))
        assert tab.page.locator(".answer.refused").first.inner_text() == message
        assert tab.breaches() == []
        assert tab.messages == []


@pytest.mark.heavy
def test_refusals_to_come_are_those_of_the_command_and_of_what_if(browser: Browser, tmp_path: pathlib.Path) -> None:
    with standalone() as deployment:

        def printed(*arguments: str) -> str:
            return run_program("tonnage", *arguments, "--config-file", deployment.conf).output

        deployment.rest.wait_until_available(deployment.rest.create(1))
        engine = database.create_engine(deployment.database_url)
        with orm.Session(engine) as session:
            today = history_writer.database_time(session).replace(hour=0, minute=0, second=0, microsecond=0)
            pool_id = session.scalars(sa.select(models.Pool.id)).first()
            for age in range(1, 31):
                slot = {"grain": "day", "slot": today - datetime.timedelta(days=age), "samples": 6}
                flows = {"created_gb": age % 7, "deleted_gb": 0}
                session.add(tables.TypeHistory(**slot, **TYPE, **flows))
                session.add(tables.PoolHistory(**slot, **POOL, **flows, pool_id=pool_id))
            session.commit()
        engine.dispose()
        made = lambda: deployment.rest.get("capacity-overview/coming-refusals")["types"]  # noqa: E731
        [shown] = wait_for(made, "a scheduler has made a forecast")
        [told] = json.loads(printed("forecast", "--refusals", "-f", "json"))
        assert re.fullmatch(r"refused in \d+ of 20 runs within 14 days, CapacityFilter first", told["forecast"])
        assert (told["forecast"], told["message"]) == (shown["text"], shown["message"])
        file = tmp_path / "requests.json"
        file.write_text(told["requests"])
        # Others use the disk of the test too, so the room on it changes.
        last = re.sub(_SHARED, "", printed("what-if", "--file", str(file)).splitlines()[-1])
        assert last.partition(": ")[2] == re.sub(_SHARED, "", told["message"])
        with browser.tab(deployment.rest.url) as tab:
            tab.open("soon", "Soon")
            table = tab.page.get_by_role("table", name="Refusals to come")
            assert table.locator("td").all_inner_texts()[:3] == ["none", shown["text"], shown["message"]]
            assert tab.breaches() == []


@pytest.mark.heavy
def test_the_explanation_is_that_of_the_command(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        for size, kind in ((2, "gold"), (500, "")):
            tab.open("explain", "Explain")
            tab.page.get_by_label("Size in GiB").fill(str(size))
            tab.page.get_by_label("Type").select_option(kind)
            tab.page.get_by_role("button", name="Explain").click()
            tab.page.locator(".command").wait_for()
            output, _ = commanded(tab)
            lines = output.splitlines()
            # Others use the disk of the test too, so the room on it changes.
            assert re.sub(_SHARED, "", tab.page.locator(".answer").inner_text()) == re.sub(_SHARED, "", lines[0])
            printed = table_rows(lines)[1:]
            shown = [row.locator("td").all_inner_texts() for row in tab.page.locator("tbody tr").all()]
            assert re.sub(_SHARED, "", str(shown)) == re.sub(_SHARED, "", str(printed))


@pytest.mark.heavy
def test_refusals_are_shown_in_full_and_asked_again(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("refusals", "Refusals")
        [recorded] = tonnage.rest.get("capacity-overview/refusals")["refusals"]
        assert recorded["message"].startswith("No pool for 500 GiB thin 'gold'")
        tab.wait_for_text(recorded["message"])
        tab.page.get_by_role("link", name="Ask again now").click()
        tab.wait_until_loaded("Explain")
        assert "No pool for 500 GiB thin 'gold'" in tab.page.locator(".answer").inner_text()


@pytest.mark.heavy
def test_types_have_their_headroom_and_the_reasons_of_other_pools(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("types", "Types")
        row = tab.page.locator("tbody tr").filter(has_text="gold")
        row.get_by_text("of 2 pools").wait_for()
        assert f"{tonnage.rest.headroom(tonnage.pool('thin'), 'thin')} GiB" in row.inner_text()


@pytest.mark.heavy
def test_the_heat_map_has_a_named_tile_for_each_pool(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("pools", "Pools")
        tab.page.get_by_role("button", name="Heat map").click()
        tab.wait_for_text("at rest, to 50 %: 2 pools")
        assert tab.page.url.endswith("view=map")
        tab.page.get_by_label("Name contains").fill("#thin")
        tab.wait_for("document.querySelectorAll('.tiles a').length === 1")
        # The address alone shows the same.
        tab.page.reload()
        tab.wait_until_loaded("Pools")
        tile = tab.page.locator(".tiles a")
        assert re.fullmatch(rf"{tonnage.pool('thin')} \d+\.\d %, at rest", " ".join(tile.inner_text().split()))
        tile.press("Enter")
        tab.wait_until_loaded(f"Pool {tonnage.pool('thin')}")


@pytest.mark.heavy
def test_a_volume_is_found_and_explained_as_by_the_command(browser: Browser, tonnage: Deployment) -> None:
    volume = tonnage.rest.get("volumes/detail?sort=size:desc")["volumes"][0]
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("volumes", "Volumes")
        assert tab.page.locator("tbody tr").count() == 2
        tab.page.get_by_label("Name contains, or id").fill("no such name")
        tab.wait_for_text("No volume matches.")
        tab.page.get_by_label("Name contains, or id").fill(volume["id"])
        tab.wait_until_loaded(f"Volume {volume['id']}")
        printed = run_program("tonnage", "why", volume["id"], "--config-file", tonnage.conf, "-f", "json").output
        why = json.loads(printed)
        assert tab.page.locator(".answer").first.inner_text() == f"{why['pool']}: {why['reason']}"
        assert why["request_id"] in tab.page.locator(".facts").inner_text()
        claims = tab.page.get_by_role("table", name="Claims").locator("tbody tr")
        assert claims.count() == len(why["claims"]) == 1
        shown = re.sub(_SHARED, "", tab.text())
        assert re.sub(_SHARED, "", why["decision_now"]) in shown
        assert tab.page.locator(".command").inner_text().startswith(f"tonnage why {volume['id']} --url ")
        tab.open("why", "Why?")
        tab.page.get_by_label("Id or name").fill(volume["id"])
        tab.page.get_by_label("Id or name").press("Enter")
        tab.wait_for_text(why["reason"])
        assert tab.messages == []


@pytest.mark.heavy
def test_a_refused_request_is_explained(browser: Browser, tonnage: Deployment) -> None:
    [refused] = tonnage.rest.get("capacity-overview/refusals")["refusals"]
    with browser.tab(tonnage.rest.url) as tab:
        tab.open(f"why?id={refused['request_id']}", "Why?")
        assert tab.page.locator(".answer").first.inner_text() == refused["message"]


@pytest.mark.heavy
def test_problems_come_first_and_the_header_is_not_green(browser: Browser, server: PageServer) -> None:
    exceeded = {"total_capacity_gb": 36, "free_capacity_gb": 30, "provisioned_capacity_gb": 144}
    server.add_scheduler()
    server.add_backend("box@new", {"p": {}})
    with browser.tab(server.url) as tab:
        tab.open("now", "Now")
        tab.wait_for_text("Nothing needs attention.")
        assert tab.page.locator(".health .state.up").inner_text() == "healthy"
        server.add_backend("box@old", {"q": {}}, silence=7200)
        server.add_backend("box@over", {"r": {**exceeded, "max_over_subscription_ratio": 1.0}})
        tab.page.reload()
        tab.wait_until_loaded("Now")
        assert tab.page.locator(".health").inner_text() == "1 backend down, 1 pool over its limit"
        assert tab.page.locator(".health .state.up").count() == 0
        rows = tab.page.get_by_role("table", name="Problems").locator("tbody tr")
        shown = [row.locator("td").all_inner_texts() for row in rows.all()]
        assert [cells[0] for cells in shown] == ["1 backend down", "1 pool over its limit"]
        assert "box@old: no report" in shown[0][1]
        assert shown[1][1:] == ["box@over#r: promised 108 GiB over its limit", "tonnage pool 'box@over#r'"]
        # The excess of one pool takes nothing from the room of the other.
        assert "Promised: 60.7 % taken; 108 GiB over limits" in tab.page.locator(".sums").inner_text()
        row = tab.page.get_by_role("table", name="Fullest pools").locator("tbody tr").first
        assert row.locator(".severity.over").inner_text() == "over its limit"
        assert row.locator("svg[aria-label='promised: 400.0 % of the limit, over its limit'] .heat5").count() == 1
        assert tab.breaches() == []
        tab.page.locator(".health").get_by_role("link", name="1 backend down").click()
        tab.wait_until_loaded("Backends")
        first = tab.page.locator("tbody tr").first.inner_text()
        assert "box@old" in first
        assert "down no report" in first
        tab.page.locator(".health").get_by_role("link", name="1 pool over its limit").click()
        tab.wait_until_loaded("Pools")
        assert tab.page.locator("tbody td.name").all_inner_texts() == ["box@over#r"]
        assert tab.messages == []


@pytest.mark.heavy
def test_ages_do_not_depend_on_the_time_zone_of_the_browser(browser: Browser, server: PageServer) -> None:
    server.add_backend("box@disk", {"p": {}})
    server.add_volume("box@disk#p", id="v1", name="first")
    with browser.tab(server.url, timezone_id="Asia/Tokyo") as tab:
        tab.open("volumes", "Volumes")
        assert re.fullmatch(r"\d+ s", tab.page.locator("tbody td").last.inner_text())


@pytest.mark.heavy
def test_the_ledger_is_checked(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("ledger", "Ledger")
        tab.wait_for_text("2 pools checked: the ledger is right.")
        tab.wait_for_text(tonnage.pool("thin").partition("#")[0])


def press_until(tab: Tab, key: str, condition: str) -> None:
    """Press a key until a condition on ``document.activeElement``, called ``it``, is true."""
    for _ in range(40):
        tab.page.keyboard.press(key)
        if tab.page.evaluate(f"(it => {condition})(document.activeElement)"):
            return
    raise AssertionError(f"no {condition} by {key}")


@pytest.mark.heavy
def test_everything_can_be_done_with_the_keyboard(browser: Browser, tonnage: Deployment) -> None:
    with browser.tab(tonnage.rest.url) as tab:
        tab.open("now", "Now")
        press_until(tab, "Tab", "it.className === 'skip'")
        tab.page.keyboard.press("Enter")
        tab.wait_for("document.activeElement.id === 'main'")
        press_until(tab, "Shift+Tab", "it.textContent === 'Pools'")
        tab.page.keyboard.press("Enter")
        tab.wait_until_loaded("Pools")
        # The heading has the focus, so it is read aloud.
        tab.wait_for("document.activeElement.tagName === 'H2' && document.activeElement.textContent === 'Pools'")
        press_until(tab, "Tab", "it.className === 'sort' && it.textContent.startsWith('Pool')")
        tab.page.keyboard.press("Enter")
        tab.wait_for("document.querySelector('th.name').ariaSort === 'ascending'")
        tab.wait_for(f"document.querySelector('tbody td.name').innerText === '{tonnage.pool('thick')}'")
        press_until(tab, "Shift+Tab", "it.type === 'search'")
        tab.page.keyboard.type("thin")
        tab.wait_for("document.querySelectorAll('tbody tr').length === 1")
        press_until(tab, "Tab", "it.href?.includes('#pool?')")
        tab.page.keyboard.press("Enter")
        tab.wait_until_loaded(f"Pool {tonnage.pool('thin')}")
        press_until(tab, "Shift+Tab", "it.textContent === 'Pause'")
        tab.page.keyboard.press("Space")
        tab.page.get_by_role("button", name="Pause", pressed=True).wait_for()


@pytest.mark.heavy
def test_an_empty_ledger_shows_the_command_that_starts_an_agent(browser: Browser, server: PageServer) -> None:
    with browser.tab(server.url) as tab:
        tab.open("now", "Now")
        tab.wait_for_text("No backend has reported")
        tab.wait_for_text("tonnage-agent --config-file")
        assert tab.breaches() == []


@pytest.mark.heavy
def test_old_unknown_and_infinite_figures(browser: Browser, server: PageServer) -> None:
    server.add_backend("box@new", {"p": {}})
    server.add_backend("box@old", {"q": {"provisioned_capacity_gb": 1234}}, silence=7200)
    unknown = {"total_capacity_gb": "unknown", "free_capacity_gb": "unknown"}
    infinite = {"total_capacity_gb": "infinite", "free_capacity_gb": "infinite"}
    server.add_backend("box@odd", {"r": unknown, "s": infinite}, enabled=True)
    server.add_backend("box@off", {"t": {}}, enabled=False, disabled_reason="new disks")
    with browser.tab(server.url) as tab:
        tab.open("now", "Now")
        tab.wait_for_text("Figures of 3 of 4 backends are current")
        tab.wait_for_text("no scheduler was heard")
        left_out = "1 with stale figures, 1 disabled or draining, 2 with unknown or infinite capacity"
        tab.wait_for_text(f"Sums of 1 pool; left out: {left_out}.")
        assert tab.page.locator(".legend").first.inner_text().split()[-3:] == ["total", "1,000", "GiB"]
        tab.open("pools", "Pools")
        rows = tab.page.locator("tbody tr")
        assert "was 1.21 TiB, 2 h ago" in rows.filter(has_text="box@old").inner_text()
        assert "unknown" in rows.filter(has_text="box@odd#r").inner_text()
        assert "infinite" in rows.filter(has_text="box@odd#s").inner_text()
        assert "new disks" in rows.filter(has_text="box@off").inner_text()
        assert tab.breaches() == []


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True, scope="module")
def test_pools_of_a_stopped_agent_leave_the_sums_and_keep_the_age_of_their_figures(
    browser: Browser, deploy: Deploy
) -> None:
    sized = {"filesystem_size_limit_gb": 10, "filesystem_provisioning": "thin"}
    with deploy({"disk": sized}, service_down_time=10) as tonnage, browser.tab(tonnage.rest.url) as tab:
        tonnage.start()
        stops = {"DEFAULT": {"host": "stops"}, "disk": {"filesystem_path": tonnage.folder / "stops"}}

        def pool_of_stopped_agent() -> dict[str, Any]:
            printed = run_program("tonnage", "pools", "--config-file", tonnage.conf, "-f", "json").output
            return next((pool for pool in json.loads(printed) if pool["pool"] == "stops@disk#disk"), {})

        with run_process("agent", tonnage.conf_with(**stops)):
            wait_for(lambda: pool_of_stopped_agent().get("total_bytes"), "the pool has figures")
            tab.open("now", "Now")
            tab.wait_for_text("Figures of 2 of 2 backends are current")
            tab.wait_for_text("Sums of 2 pools")
        # The page asks again by itself.
        tab.wait_for_text("Figures of 1 of 2 backends are current")
        tab.wait_for_text("Sums of 1 pool; left out: 1 with stale figures")
        tab.open("pools", "Pools")
        stopped = tab.page.locator("tbody tr").filter(has_text="stops@disk#disk")
        wait_for(lambda: re.search(r"was 10(\.0+)? GiB, \d+ s ago", stopped.inner_text()), "the pool says its age")
        assert pool_of_stopped_agent()["state"] == "down"
        shown = run_program("tonnage", "pools", "--config-file", tonnage.conf).output
        assert re.search(r"stops@disk#disk .*down, was 10(\.0+)? GiB, \d+ s ago", shown), shown


@pytest.mark.heavy
def test_history_and_forecasts_are_drawn_and_told(browser: Browser, server: PageServer) -> None:
    server.add_backend("box@disk", {"p": {}})
    server.add_history("box@disk#p", [4.0, 6.0] * 30)
    server.add_scheduler()
    server.add_coming_refusals()
    with browser.tab(server.url) as tab:
        tab.open("soon", "Soon")
        refused = tab.page.get_by_role("table", name="Refusals to come").locator("tbody tr").first
        told = [COMING[0].text(), COMING[0].message, "20 GiB, 41 \u00d7 5 GiB gold"]
        assert refused.locator("td").all_inner_texts()[:-1] == ["gold", *told]
        assert refused.locator("td").last.inner_text().endswith(" ago")
        row = tab.page.locator("tbody tr").filter(has_text="physical")
        forecast = row.locator("td").nth(2).inner_text()
        assert re.fullmatch(r"full in \d+ to \d+ days \(80 %\)", forecast)
        assert re.fullmatch(r"\d+ GiB to \d+ GiB", row.locator("td").nth(3).inner_text())
        tab.open("pool?name=box@disk%23p", "Pool box@disk#p")
        tab.page.locator("canvas").first.wait_for()
        tab.wait_for_text(f"Physical: {forecast}")
        tab.page.get_by_text("The same as a table").click()
        tab.wait_for_text("The last 60 of 144")
        assert tab.page.get_by_role("button", name="24 hours", pressed=True).count() == 1
        assert tab.breaches() == []
        tab.page.get_by_role("button", name="14 days").click()
        tab.wait_for_text("The last 60 of 336")
        tab.page.get_by_role("button", name="400 days").click()
        tab.wait_for("document.querySelectorAll('table:has(caption) tbody tr').length >= 60")
        assert tab.page.get_by_role("table", name="History").locator("tbody tr").count() == 60
        assert tab.page.url.endswith("grain=day")
        tab.open("pools", "Pools")
        assert tab.page.locator("td.soon").inner_text() == forecast
        assert tab.messages == []


@pytest.mark.heavy
def test_a_chart_has_holes_and_ends_with_the_figures_of_now(browser: Browser, server: PageServer) -> None:
    slots = [
        {"slot": f"2026-03-01T00:{minute}:00Z", "used_gb": used, "physical_limit_gb": 95}
        for minute, used in (("00", 10), ("10", 20), ("30", 40))
    ]
    start = datetime.datetime.fromisoformat("2026-03-01T00:00:00Z").timestamp()
    end = {"used_gb": 45, "physical_limit_gb": 90, "at": start + 35 * 60}

    def drawn(shown_end: dict[str, Any]) -> Any:
        chart = tab.page.evaluate(
            "([slots, end]) => import('/page/history.js').then(module => "
            "module.drawn(slots, end, 'ten_minutes', 'used_gb', 'physical_limit_gb', false, undefined))",
            [slots, shown_end],
        )
        minutes = [(time - start) / 60 for time in chart["times"]]
        return list(zip(minutes, *(line["values"] for line in chart["lines"]), strict=True))

    with browser.tab(server.url) as tab:
        tab.visit("now")
        past = [(10, 10, 95), (20, 20, 95), (30, None, None)]
        assert drawn(end) == [*past, (35, 45, 90)]
        # Old figures are not those of now.
        assert drawn({**end, "used_gb": None, "physical_limit_gb": None, "at": None}) == [*past, (40, 40, 95)]
        # No sample was taken in the last half hour.
        assert drawn({**end, "at": start + 55 * 60})[3:] == [(40, 40, 95), (50, None, None), (55, 45, 90)]


@pytest.mark.heavy
def test_views_of_extensions_that_are_not_enabled_are_not_offered(browser: Browser, tmp_path: pathlib.Path) -> None:
    with page_server(tmp_path, extensions=["page"]) as server, browser.tab(server.url) as tab:
        server.add_backend("box@disk", {"p": {}})
        for address, heading in {
            "now": "Now",
            "soon": "Now",
            "pools": "Pools",
            "pool?name=box@disk%23p": "Pool box@disk#p",
            "backends": "Backends",
            "volumes": "Volumes",
            "types": "Types",
            "refusals": "Refusals",
            "plans": "Now",
            "plan?id=1": "Now",
            "ledger": "Ledger",
        }.items():
            tab.open(address, heading)
            links = tab.page.get_by_role("navigation").inner_text().split()
            assert {"Soon", "Plans"}.isdisjoint(links)
            assert tab.page.get_by_role("heading", name="History").count() == 0
            assert tab.page.locator("td.soon").count() == 0
        # The browser logs each response with an error.
        assert tab.messages == []


@pytest.mark.heavy
def test_the_layout_stays_while_figures_load(browser: Browser, server: PageServer) -> None:
    server.add_backend("box@disk", {"p": {}})
    held: list[sync_api.Route] = []
    with browser.tab(server.url) as tab:
        tab.page.route("**/capacity-overview/pools*", lambda route: held.append(route))
        tab.visit("pools")
        tab.page.get_by_role("heading", name="Pools", exact=True).wait_for()
        tab.wait_for("document.querySelector('[data-figures=loading]').ariaBusy === 'true'")
        assert tab.page.get_by_label("Name contains").is_visible()
        wait_for(lambda: bool(held), "the figures are asked for")
        held.pop().continue_()
        tab.wait_until_loaded("Pools")
        assert tab.page.locator("tbody tr").count() == 1


@pytest.mark.heavy
def test_the_last_figures_stay_when_there_is_no_answer(browser: Browser, server: PageServer) -> None:
    server.add_backend("box@disk", {"p": {}})
    with browser.tab(server.url) as tab:
        tab.open("pools", "Pools")
        server.stop()
        tab.page.get_by_role("button", name="Pause").press("Space")
        tab.page.get_by_role("button", name="Pause").press("Space")
        tab.wait_for_text("No connection.")
        tab.wait_for_text("The figures below are")
        assert "are current" not in tab.page.locator("header").inner_text()
        assert tab.page.locator("tbody tr").count() == 1
        assert tab.page.get_by_role("button", name="Try again").is_visible()
        assert tab.breaches() == []


@pytest.mark.heavy
def test_a_refusal_by_the_policy_names_the_rule(browser: Browser, server: PageServer) -> None:
    server.set_policy('"capacity:overview": "!"\n')
    with browser.tab(server.url) as tab:
        tab.visit("now")
        tab.wait_for_text("Policy doesn't allow capacity:overview to be performed.")
        assert tab.breaches() == []


@pytest.mark.heavy
def test_an_unavailable_database_is_named(browser: Browser, server: PageServer) -> None:
    with browser.tab(server.url) as tab:
        with faults.failing(server.ledger.engine, "", errors.Unavailable("the database does not answer")):
            tab.visit("now")
            tab.wait_for_text("A part of Tonnage does not answer.")
            tab.wait_for_text("the database does not answer")
        server.add_backend("box@disk", {"p": {}})
        tab.page.get_by_role("button", name="Try again").first.click()
        tab.wait_until_loaded("Now")


def test_the_page_asks_for_a_token_where_one_is_needed(browser: Browser, tmp_path: pathlib.Path) -> None:
    def authenticate(req: Request, project_id: str | None) -> RequestContext:
        if req.get_header("X-Auth-Token") != "right":
            raise request_context.Unauthenticated(request_context.REQUIRED, "Keystone uri='http://keystone'")
        return request_context.administrator(req, user_id="operator", project_id="demo")

    with page_server(tmp_path, authenticate) as server, browser.tab(server.url) as tab:
        server.add_backend("box@disk", {"p": {}})
        tab.visit("now")
        tab.wait_for_text("A token is needed.")
        tab.page.get_by_label("Token").fill("wrong")
        with tab.page.expect_response("**/v3/capacity-overview") as answer:
            tab.page.get_by_label("Token").press("Enter")
        assert answer.value.status == 401
        assert tab.breaches() == []
        tab.page.get_by_label("Token").fill("right")
        tab.page.get_by_label("Token").press("Enter")
        tab.wait_until_loaded("Now")
        tab.page.reload()
        tab.wait_until_loaded("Now")
        tab.page.get_by_role("button", name="Forget the token").click()
        tab.wait_for_text("A token is needed.")
        assert tab.policy_messages() == []


@pytest.mark.heavy
def test_names_are_inert(browser: Browser, server: PageServer) -> None:
    server.add_backend("box@disk", {SCRIPT: {}, QUOTES: {}}, disabled_reason=f"{SCRIPT}\n{QUOTES}", enabled=False)
    server.add_volume(f"box@disk#{SCRIPT}", id="v1", name=f"{SCRIPT}\n{QUOTES}")
    with browser.tab(server.url) as tab:
        for address, heading in (("now", "Now"), ("pools", "Pools")):
            tab.open(address, heading)
            tab.wait_for_text(SCRIPT)
            tab.wait_for_text(QUOTES)
        for name in (QUOTES, SCRIPT):
            tab.open("pools", "Pools")
            tab.page.get_by_role("link", name=name, exact=False).click()
            tab.wait_until_loaded(f"Pool box@disk#{name}")
            tab.wait_for_text("1 volume" if name == SCRIPT else "0 volumes")
        assert SCRIPT in tab.page.locator("tbody").inner_text()
        assert tab.page.locator("img, script[src*=x], b").count() == 0
        assert tab.messages == []


def test_pages_of_other_sites_and_forms_change_nothing(server: PageServer) -> None:
    question, json_type = '{"requests": [{"volume": {"size": 1}}]}', {"Content-Type": "application/json"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    url = f"{server.url}/v3/scheduler-stats/what-if"
    assert (
        requests.post(url, question, headers={**json_type, "Origin": "http://evil.example"}, timeout=60).status_code
        == 403
    )
    assert requests.post(url, question, headers={**form, "Origin": server.url}, timeout=60).status_code == 415
    for path in ("/page/", "/v3/capacity-overview"):
        assert requests.get(server.url + path, headers={"Host": "evil.example"}, timeout=60).status_code == 403
        assert requests.get(server.url + path, timeout=60).status_code == 200
