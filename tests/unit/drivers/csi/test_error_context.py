# SPDX-License-Identifier: Apache-2.0
"""Low-level errors as errors of a driver."""

import sqlite3
from pathlib import Path

import grpc
import pytest

from tonnage.capacity import errors
from tonnage.drivers.csi import error_context
from tonnage.drivers.csi.connection import CallFailed
from tonnage.drivers.csi.error_context import EarlierChanges
from tonnage.drivers.csi.plugin import InvalidResponse


@pytest.mark.parametrize(
    "error",
    [
        InvalidResponse("a volume without volume_id"),
        CallFailed("unix:///s", "Controller/GetCapacity", grpc.StatusCode.INTERNAL, "no", True, False),
    ],
)
@pytest.mark.parametrize(
    ("changes", "kind", "clean"),
    [
        (EarlierChanges.NONE, errors.DriverError, True),
        (EarlierChanges.FINISHED, errors.DriverError, False),
        (EarlierChanges.PENDING, errors.OutcomeUnknown, False),
    ],
)
def test_a_failed_call_is_an_error_of_the_driver(
    error: Exception, changes: EarlierChanges, kind: type[errors.DriverError], clean: bool
) -> None:
    with pytest.raises(errors.DriverError) as caught, error_context.for_plugin_call("create of v", changes):
        raise error
    assert (type(caught.value), caught.value.message) == (kind, f"create of v: {error}")
    assert (caught.value.clean, caught.value.__cause__) == (clean, error)


def test_an_unusable_state_file_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    file = tmp_path / "state"
    with pytest.raises(errors.OutcomeUnknown) as caught, error_context.for_state_file("create of v", file):
        raise sqlite3.OperationalError("database is locked")
    assert caught.value.message == f"create of v: csi_state_file {file}: database is locked"
    assert not caught.value.clean


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound), error_context.for_plugin_call("c"):
        raise errors.NotFound("v")
    with pytest.raises(errors.NotFound), error_context.for_state_file("c", tmp_path):
        raise errors.NotFound("v")
