# SPDX-License-Identifier: Apache-2.0
"""A real Chromium for tests of the web page."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api

from tests import suites
from tests.servers.base import wait_for

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
#: The browser, None if it is not installed.
PROGRAM = next((found for name in _PROGRAMS if (found := shutil.which(name))), None)

#: Milliseconds until something must be visible. Test machines are busy.
TIMEOUT = 60_000

#: A part of each message about a breach of the content security policy.
_POLICY = "Content Security Policy"


_LOADED = """(() => {
  const titled = each => each.querySelector("h2").textContent === HEADING;
  const section = [...document.querySelectorAll("section")].find(titled);
  const parts = [...section?.querySelectorAll("[data-figures]") ?? []];
  return parts.length > 0 && parts.every(each => each.dataset.figures === "shown");
})()"""


class Tab:
    """A tab with the page of a server. It collects messages on the console, and errors of scripts."""

    def __init__(self, page: sync_api.Page, url: str) -> None:
        self.page, self.url = page, url
        self.messages: list[str] = []
        page.set_default_timeout(TIMEOUT)
        page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.messages.append(f"error in a script: {error}"))

    def open(self, section: str, heading: str) -> None:
        """Open a section, as a new visitor, and wait until its figures are shown."""
        self.visit(section)
        self.wait_until_loaded(heading)

    def visit(self, section: str) -> None:
        """Open a section, as a new visitor, whose figures may not be had."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/page/#{section}")

    def wait_until_loaded(self, heading: str) -> None:
        """Wait until all figures of the section with this heading are shown.

        The page says of each part with figures whether they are there; a section without such a part is not loaded.
        """
        self.wait_for(_LOADED.replace("HEADING", json.dumps(heading)))

    def text(self) -> str:
        """Return the text that a visitor sees."""
        return self.page.inner_text("body")

    def wait_for_text(self, text: str) -> None:
        """Wait until the page shows a text."""
        wait_for(lambda: text in self.text(), f"the page shows {text!r}")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true. Playwright's own wait would break the content security policy."""
        wait_for(lambda: bool(self.page.evaluate(condition)), condition)

    def breaches(self) -> list[str]:
        """Return the breaches of the rules of accessibility that axe finds."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]

    def is_wider_than_the_window(self) -> bool:
        """Return whether a visitor has to scroll sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def policy_messages(self) -> list[str]:
        """Return the messages about breaches of the content security policy."""
        return [message for message in self.messages if _POLICY in message]


class Browser:
    """A browser that opens tabs."""

    def __init__(self, browser: sync_api.Browser) -> None:
        self._browser = browser

    @contextlib.contextmanager
    def tab(self, url: str, *, width: int = 1280, dark: bool = False, **options: Any) -> Iterator[Tab]:
        """A tab with a profile of its own. ``options`` are those of Playwright's contexts."""
        scheme = "dark" if dark else "light"
        context = self._browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce", **options
        )
        try:
            yield Tab(context.new_page(), url)
        finally:
            context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    if PROGRAM is None:
        suites.cannot_run("browser", "no Chromium on this machine; install chromium")
    with sync_api.sync_playwright() as playwright:
        # The sandbox of Chromium does not work for root.
        launched = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"], timeout=TIMEOUT)
        yield Browser(launched)
        launched.close()
