# SPDX-License-Identifier: Apache-2.0
"""The log handlers that a test leaves behind, in the order of these tests."""

import io
import logging


def test_a_test_may_leave_a_handler_of_a_closed_stream() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.set_name("of a closed stream")
    logging.root.addHandler(handler)
    stream.close()
    assert handler in logging.root.handlers


def test_the_next_test_is_without_it() -> None:
    assert "of a closed stream" not in {handler.get_name() for handler in logging.root.handlers}
