# SPDX-License-Identifier: Apache-2.0
"""Calls to a plugin: what their failures prove, and when they are made again."""

from typing import Any

import grpc
import pytest
import tenacity

from tests.servers.csi_plugin import CsiPlugin
from tests.unit.drivers.csi.backends import direct_plugin
from tonnage.drivers.csi.connection import CallFailed, Deadline

CODES = grpc.StatusCode


def test_the_error_of_a_call_names_endpoint_call_and_code(plugin: CsiPlugin) -> None:
    plugin.settings.failing["DeleteVolume"] = grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(CallFailed) as caught:
        direct_plugin(plugin).delete("vol-1", Deadline(60))
    assert str(caught.value) == (
        f"{plugin.endpoint} answers Controller/DeleteVolume with FAILED_PRECONDITION: as the test wants it"
    )


class Attempts(Deadline):
    """A deadline that passes after a number of attempts, so that no attempt is cut short on a busy machine."""

    def __init__(self, number: int) -> None:
        super().__init__(60)
        self._number = number

    def has_passed(self, attempts: tenacity.RetryCallState) -> bool:
        return attempts.attempt_number >= self._number


def test_a_call_that_was_never_sent_has_no_effect(plugin: CsiPlugin) -> None:
    plugin.stop()
    with pytest.raises(CallFailed, match="UNAVAILABLE") as caught:
        direct_plugin(plugin).delete("vol-1", Attempts(3))
    assert caught.value.refused
    plugin.start()
    client = direct_plugin(plugin)
    client.delete("vol-1", Deadline(60))  # gRPC connects again
    plugin.settings.failing["DeleteVolume"] = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(CallFailed, match="UNAVAILABLE") as caught:
        client.delete("vol-1", Attempts(3))
    assert not caught.value.refused


def failure(code: Any, *, was_sent: bool = True, is_retry: bool = False, details: str = "") -> CallFailed:
    """Return the failure of a call of Controller/CreateVolume."""
    return CallFailed("unix:///csi.sock", "Controller/CreateVolume", code, details, was_sent, is_retry)


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        (CODES.INVALID_ARGUMENT, True),
        (CODES.RESOURCE_EXHAUSTED, True),
        (CODES.UNIMPLEMENTED, True),
        (CODES.INTERNAL, False),
        (CODES.UNKNOWN, False),
        (CODES.DEADLINE_EXCEEDED, False),
        (CODES.UNAVAILABLE, False),
        (CODES.ALREADY_EXISTS, False),
        (CODES.ABORTED, False),
    ],
)
def test_only_a_refusal_of_the_first_attempt_proves_that_there_was_no_effect(code: Any, refused: bool) -> None:
    assert failure(code).refused is refused
    assert not failure(code, is_retry=True).refused


def test_a_request_that_was_never_sent_has_had_no_effect_whatever_the_code() -> None:
    assert failure(CODES.UNAVAILABLE, was_sent=False).refused
    assert failure(CODES.DEADLINE_EXCEEDED, was_sent=False).refused


@pytest.mark.parametrize(
    ("code", "is_answer"),
    [
        (CODES.INVALID_ARGUMENT, True),
        (CODES.INTERNAL, True),
        (CODES.UNKNOWN, True),
        (CODES.ABORTED, False),
        (CODES.UNAVAILABLE, False),
        (CODES.DEADLINE_EXCEEDED, False),
        (CODES.CANCELLED, False),
    ],
)
def test_a_plugin_that_is_away_or_busy_may_still_work_on_the_call(code: Any, is_answer: bool) -> None:
    assert failure(code).is_answer is is_answer


def test_a_failure_without_details_says_so() -> None:
    assert str(failure(CODES.INTERNAL)) == (
        "unix:///csi.sock answers Controller/CreateVolume with INTERNAL: it does not say why"
    )


def test_a_deadline_that_has_passed_leaves_a_moment_for_the_last_attempt() -> None:
    assert Deadline(-1.0).remaining() == 0.005
    assert 59.0 < Deadline(60.0).remaining() <= 60.0


@pytest.mark.parametrize(("pause", "has_passed"), [(1.0, False), (61.0, True)])
def test_a_retry_that_would_begin_after_the_deadline_is_not_made(pause: float, has_passed: bool) -> None:
    attempts = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    attempts.upcoming_sleep = pause
    assert Deadline(60.0).has_passed(attempts) is has_passed


@pytest.mark.parametrize("code", [CODES.INTERNAL, CODES.DEADLINE_EXCEEDED, CODES.NOT_FOUND])
def test_a_failure_that_a_retry_does_not_overcome_is_final(plugin: CsiPlugin, code: Any) -> None:
    plugin.settings.failing["DeleteVolume"] = code
    with pytest.raises(CallFailed) as caught:
        direct_plugin(plugin).delete("vol-1", Deadline(60))
    assert caught.value.code is code
    assert len(plugin.asked("DeleteVolume")) == 1


def test_a_busy_plugin_is_called_again_until_the_deadline(plugin: CsiPlugin) -> None:
    plugin.settings.failing["DeleteVolume"] = CODES.ABORTED
    with pytest.raises(CallFailed, match="ABORTED"):
        direct_plugin(plugin).delete("vol-1", Attempts(3))
    assert len(plugin.asked("DeleteVolume")) == 3
