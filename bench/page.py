#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the web page in Chromium, and of the requests of many tabs beside other requests to the API.

The ledger is a file of SQLite with synthetic pools. The API, the tabs and the other requests have a process each. Run
it with the Python that Tonnage is installed in::

    python bench/page.py --pools 10000 --tabs 100
"""

import argparse
import multiprocessing
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

import requests
from playwright import sync_api

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import comparison_runner

from tests.functional import browser
from tests.functional.page_server import PageServer, page_server

#: Seconds between two polls of a tab, and its requests in the section Now.
_PERIOD = 10.0
_POLLED = ("capacity-overview", "capacity-overview/pools?limit=10")

#: Number of pools of a backend.
_POOLS = 100

_ROUNDS = 7

_SPAWN = multiprocessing.get_context("spawn")

#: Seconds from the start of the navigation until the first row of a table is painted.
_FIRST_ROWS = """new Promise(found => {
  const look = () => document.querySelector("tbody tr")
    ? requestAnimationFrame(() => found(performance.now() / 1000)) : setTimeout(look, 1);
  look();
})"""

#: Seconds from a click on the button "Next" until the rows of the next page are painted.
_NEXT_PAGE = """new Promise(found => {
  const first = () => document.querySelector("tbody tr")?.innerText;
  const before = first();
  const began = performance.now();
  [...document.querySelectorAll("button")].find(each => each.textContent === "Next").click();
  const look = () => first() && first() !== before
    ? requestAnimationFrame(() => found((performance.now() - began) / 1000)) : setTimeout(look, 1);
  look();
})"""


def fill(server: PageServer, pools: int) -> None:
    """Add pools, some of them with other figures, so that an order is not that of the rows."""
    for number in range(-(-pools // _POOLS)):
        names = range(number * _POOLS, min((number + 1) * _POOLS, pools))
        server.add_backend(
            f"host{number}@array",
            {f"pool{name}": {"free_capacity_gb": 50.0 + name * 37 % 900} for name in names},
        )


def in_browser(url: str) -> tuple[float, float]:
    """Return the median seconds until the first rows are painted, and until those of the next page are."""
    first, following = [], []
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser.PROGRAM, args=["--no-sandbox"])
        for _ in range(_ROUNDS):
            page = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
            page.goto(f"{url}/page/#pools", wait_until="commit")
            first.append(float(page.evaluate(_FIRST_ROWS)))
            following.append(float(page.evaluate(_NEXT_PAGE)))
            page.context.close()
        chromium.close()
    return statistics.median(first), statistics.median(following)


def latencies(url: str, seconds: float) -> list[float]:
    """Return the seconds of each of many requests for volume types, one after another."""
    found = []
    with requests.Session() as session:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            assert session.get(f"{url}/v3/types", timeout=60).status_code == 200
            found.append(time.perf_counter() - began)
            time.sleep(0.005)
    return found


def tab(url: str, stopped: Event, delay: float) -> None:
    """Send the requests of an open tab."""
    tags: dict[str, str] = {}
    with requests.Session() as session:
        while not stopped.wait(delay):
            delay = _PERIOD
            for path in _POLLED:
                headers = {"If-None-Match": tags[path]} if path in tags else {}
                answer = session.get(f"{url}/v3/{path}", headers=headers, timeout=60)
                tags[path] = answer.headers["ETag"]


def open_tabs(url: str, tabs: int, stopped: Event) -> None:
    """Send the requests of so many tabs, which were opened one after another."""
    threads = [threading.Thread(target=tab, args=(url, stopped, number / tabs * _PERIOD)) for number in range(tabs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serve(pools: int, addresses: "Queue[str]", stopped: Event) -> None:
    """Serve a ledger with so many pools, and put the URL into the queue."""
    with tempfile.TemporaryDirectory() as folder, page_server(pathlib.Path(folder)) as server:
        fill(server, pools)
        addresses.put(server.url)
        stopped.wait()


def latencies_with_tabs(url: str, tabs: int, seconds: float) -> list[float]:
    """Return the latencies while so many tabs are open."""
    stopped = _SPAWN.Event()
    process = _SPAWN.Process(target=open_tabs, args=(url, tabs, stopped))
    process.start()
    try:
        time.sleep(_PERIOD + 2)  # until each tab has its first answers
        return latencies(url, seconds)
    finally:
        stopped.set()
        process.join()


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pools", type=int, default=10_000, help="number of pools")
    arguments.add_argument("--tabs", type=int, nargs="+", default=[0, 100], help="numbers of open tabs")
    arguments.add_argument("--seconds", type=float, default=20.0, help="seconds of each measurement of latency")
    given = arguments.parse_args()
    addresses, stopped = _SPAWN.Queue(), _SPAWN.Event()
    server = _SPAWN.Process(target=serve, args=(given.pools, addresses, stopped))
    server.start()
    url = addresses.get()
    first, following = in_browser(url)
    heads = ["pools", "first rows, s", "next page, s"]
    print(comparison_runner.table(heads, [[given.pools, f"{first:.2f}", f"{following:.2f}"]]))
    rows = []
    for tabs in given.tabs:
        percentiles = statistics.quantiles(latencies_with_tabs(url, tabs, given.seconds), n=100)
        rows.append([tabs, *(f"{1000 * percentiles[each - 1]:.2f}" for each in (50, 95, 99))])
    print(comparison_runner.table(["open tabs", "p50, ms", "p95, ms", "p99, ms"], rows))
    stopped.set()
    server.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
