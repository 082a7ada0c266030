# SPDX-License-Identifier: Apache-2.0
"""Pages that are kept for some time."""

import gzip
import threading
from concurrent import futures

import pytest

from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.capacity import errors


class Numbers(CachedPage):
    """A page with the number of times that it was made; ``failing`` lets the database be away."""

    def __init__(self, cache_time: float) -> None:
        super().__init__(cache_time)
        self.times = 0
        self.failing = False
        self.released = threading.Event()
        self.released.set()

    def text(self, backend: str | None) -> bytes:
        self.released.wait(20)
        if self.failing:
            raise errors.Unavailable("the database does not answer")
        self.times += 1
        return f"{backend} {self.times}".encode()


def shown(page: CachedPage, backend: str | None = None) -> str:
    return gzip.decompress(page.compressed(backend)).decode()


def test_a_page_and_its_parts_are_kept_apart() -> None:
    page = Numbers(60.0)
    assert [shown(page), shown(page, "h@a"), shown(page), shown(page, "h@a")] == ["None 1", "h@a 2", "None 1", "h@a 2"]


def test_without_a_time_a_page_is_made_for_each_request() -> None:
    page = Numbers(0.0)
    assert [shown(page), shown(page)] == ["None 1", "None 2"]


def test_requests_at_the_same_time_make_the_page_once() -> None:
    page = Numbers(60.0)
    page.released.clear()
    with futures.ThreadPoolExecutor(4) as threads:
        pages = [threads.submit(shown, page) for _ in range(4)]
        page.released.set()
        assert [answer.result(20) for answer in pages] == ["None 1"] * 4


def test_an_error_is_not_kept() -> None:
    page = Numbers(60.0)
    page.failing = True
    with pytest.raises(errors.Unavailable):
        page.compressed()
    page.failing = False
    assert shown(page) == "None 1"


def test_a_kept_page_is_shown_while_the_database_is_away() -> None:
    page = Numbers(60.0)
    shown(page)
    page.failing = True
    assert shown(page) == "None 1"
