# SPDX-License-Identifier: Apache-2.0
import io
import logging
from collections.abc import Iterator

import pytest

from tonnage import log_records


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The text of a log whose records are of the factory under test."""
    before, written = logging.getLogRecordFactory(), io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.getLogger("tests.one_line").addHandler(handler)
    log_records.install()
    yield written
    logging.setLogRecordFactory(before)
    logging.getLogger("tests.one_line").removeHandler(handler)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gone\nERROR forged", "gone\\nERROR forged"),
        ("gone\r\nERROR forged", "gone\\r\\nERROR forged"),
        ("gone\u2028ERROR forged", "gone\\u2028ERROR forged"),
        ("\x1b[2Kred", "\\x1b[2Kred"),
        ("\ud800", "\\ud800"),
        ("Größe 5 ГБ", "Größe 5 ГБ"),
    ],
)
def test_no_text_begins_a_line_of_the_log(log: io.StringIO, text: str, line: str) -> None:
    logging.getLogger("tests.one_line").error("Backend %s is disabled (%s)", "h@b", text)
    assert log.getvalue() == f"ERROR Backend h@b is disabled ({line})\n"


def test_a_traceback_keeps_its_lines(log: io.StringIO) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("tests.one_line").exception("It failed")
    assert log.getvalue().startswith("ERROR It failed\nTraceback (most recent call last):\n")
