# SPDX-License-Identifier: Apache-2.0
"""The web page with thousands of pools, and the screenshots of the documentation."""

import os
import pathlib
import random
import shutil

import pytest
import requests

from tests.functional import browser as browser_module
from tests.functional.browser import Browser
from tests.functional.page_server import PageServer, page_server
from tests.servers.base import wait_for

browser = browser_module.browser

pytestmark = pytest.mark.heavy

IMAGES = pathlib.Path(__file__).parents[2] / "docs" / "images"

#: If it is set, the screenshots of the documentation are replaced.
UPDATE = "UPDATE_SCREENSHOTS"

#: The sections on the screenshots, by the names of the images.
SHOWN = {
    "page-now": ("now", "Now", False),
    "page-soon": ("soon", "Soon", False),
    "page-pool": ("pool?name=rack1@ssd%23fast", "Pool rack1@ssd#fast", False),
    "page-pools-dark": ("pools", "Pools", True),
    "page-map": ("pools?view=map&name=rack", "Pools", False),
    "page-backends": ("backends", "Backends", False),
}


def test_ten_thousand_pools_are_shown(browser: Browser, tmp_path: pathlib.Path) -> None:
    with page_server(tmp_path) as server:
        for backend in range(100):
            pools = {f"p{number}": {"free_capacity_gb": 50 + (backend * 37 + number) % 900} for number in range(100)}
            server.add_backend(f"host{backend}@array", pools)
        with browser.tab(server.url) as tab:
            tab.open("pools", "Pools")
            assert tab.page.locator("tbody tr").count() == 100
            tab.wait_for_text("1 to 100 of 10,000 pools")
            first = tab.page.locator("tbody tr").first.inner_text()
            tab.page.get_by_role("button", name="Next").click()
            tab.wait_for_text("101 to 200 of 10,000 pools")
            wait_for(lambda: tab.page.locator("tbody tr").first.inner_text() != first, "the rows are others")
            tab.page.get_by_role("button", name="Heat map").click()
            tab.page.locator("canvas").first.wait_for()
            tab.wait_until_loaded("Pools")
            assert tab.page.locator(".groups h3").count() == tab.page.locator("canvas").count() == 100
            assert tab.page.get_by_role("img", name="host42@array: 100 pools").count() == 1
            assert tab.breaches() == []
            tab.page.locator(".groups").get_by_role("link", name="host42@array").click()
            tab.wait_for("document.querySelectorAll('.tiles a').length === 100")
            tab.wait_for_text("1 to 100 of 100 pools")
            tab.page.get_by_label("Name contains").fill("")
            tab.wait_for_text("1 to 100 of 10,000 pools")
            with tab.page.expect_download() as download:
                tab.page.get_by_role("button", name="Save as CSV").click()
            saved = pathlib.Path(download.value.path()).read_text(encoding="utf-8").splitlines()
            assert len(saved) == 10_001
            assert tab.messages == []
        assert len(requests.get(f"{server.url}/v3/capacity-overview/fill", timeout=60).json()["names"]) == 10_000


def fill(server: PageServer) -> None:
    """Add the pools on the screenshots."""
    server.add_backend("rack1@ssd", {"fast": {}, "slow": {"free_capacity_gb": 900, "provisioned_capacity_gb": 300}})
    bulk = {"total_capacity_gb": 50000, "free_capacity_gb": 8000, "provisioned_capacity_gb": 61000}
    server.add_backend("rack2@hdd", {"bulk": bulk, "spare": {"free_capacity_gb": 990, "provisioned_capacity_gb": 10}})
    server.add_backend("rack3@hdd", {"old": {**bulk, "free_capacity_gb": 14540}}, silence=7000)
    server.add_backend("rack4@hdd", {"new": {}}, enabled=False, disabled_reason="new disks")
    thick = {"thin_provisioning_support": False, "max_over_subscription_ratio": 1.0, "reserved_percentage": 0}
    exceeded = {"max_over_subscription_ratio": 1.0, "provisioned_capacity_gb": 1108, "free_capacity_gb": 240}
    full = {"free_capacity_gb": 0, "provisioned_capacity_gb": 1000}
    server.add_backend("rack5@nfs", {"archive": exceeded, "scratch": {**thick, **full}})
    draw = random.Random(3)
    server.add_history("rack1@ssd#fast", [draw.uniform(0, 8) for _ in range(120)])
    server.add_history("rack2@hdd#bulk", [draw.uniform(0, 3) for _ in range(60)])
    server.add_scheduler()
    server.add_coming_refusals()


def test_the_documentation_has_screenshots_of_the_page(browser: Browser, tmp_path: pathlib.Path) -> None:
    with page_server(tmp_path) as server:
        fill(server)
        for name, (section, heading, dark) in SHOWN.items():
            with browser.tab(server.url, width=1280, dark=dark) as tab:
                tab.open(section, heading)
                tab.wait_for_text("1 backend down")
                tab.page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
            if os.environ.get(UPDATE):
                IMAGES.mkdir(exist_ok=True)
                shutil.copy(tmp_path / f"{name}.png", IMAGES)
    assert {path.stem for path in IMAGES.glob("page-*.png")} == set(SHOWN)
    text = (IMAGES.parent / "page.rst").read_text(encoding="utf-8")
    assert [name for name in SHOWN if f"images/{name}.png" not in text] == []
