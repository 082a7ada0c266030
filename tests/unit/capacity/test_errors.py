# SPDX-License-Identifier: Apache-2.0
"""Errors keep their message and details, and survive a copy."""

import copy

import pytest

from tonnage.capacity import errors


def test_an_error_shows_its_message() -> None:
    error = errors.Conflict("volume v is in use")
    assert (error.message, str(error)) == ("volume v is in use", "volume v is in use")


@pytest.mark.parametrize("error", [errors.DriverError("no answer"), errors.OutcomeUnknown("no answer")])
def test_a_driver_has_to_say_that_a_failure_left_nothing_behind(error: errors.DriverError) -> None:
    assert not error.clean


def test_a_copied_driver_error_keeps_its_details() -> None:
    error = copy.copy(errors.DriverError("disk failed", clean=True))
    assert (type(error), error.message, error.clean) == (errors.DriverError, "disk failed", True)


def test_a_caller_that_waits_for_the_other_side_also_waits_for_its_parts() -> None:
    for error in (errors.DatabaseUnreachable, errors.LedgerMoved, errors.Declined):
        assert issubclass(error, errors.Unavailable)
