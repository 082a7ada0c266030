# SPDX-License-Identifier: Apache-2.0
"""Work that reads configuration files again: its errors are logged, and the configuration stays."""

import logging

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli.daemons import reload


def test_the_result_of_the_work_is_returned(caplog: pytest.LogCaptureFixture) -> None:
    assert reload.attempt(lambda: 7) == 7
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (errors.ConfigurationError("[ssd] a = 1: no"), "[ssd] a = 1: no"),
        (cfg.ConfigFilesNotFoundError(["/a.conf"]), "Failed to find some config files: /a.conf"),
        (
            errors.MissingPlugin("filter OddFilter is not installed"),
            "filter OddFilter is not installed; restart this process if the package was installed after its start",
        ),
    ],
)
def test_an_expected_error_is_logged_on_one_line(
    caplog: pytest.LogCaptureFixture, error: Exception, problem: str
) -> None:
    def fail() -> None:
        raise error

    assert reload.attempt(fail) is None
    [record] = caplog.records
    assert (record.levelno, record.exc_info) == (logging.ERROR, None)
    assert record.getMessage() == f"The configuration stays as it was: {problem}"


def test_an_error_of_a_plugin_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert reload.attempt(lambda: 1 // 0) is None
    [record] = caplog.records
    assert record.getMessage() == "The configuration could not be taken over"
    assert record.exc_info is not None
