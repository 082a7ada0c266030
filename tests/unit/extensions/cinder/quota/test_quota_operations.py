# SPDX-License-Identifier: Apache-2.0
"""Operations that reserve quota, their identifiers, and the functions of Cinder by which they are told."""

import types
import uuid
from typing import Any

import pytest

from tonnage.extensions.cinder.quota import quota_operations
from tonnage.extensions.cinder.quota.quota_operations import CREATE_VOLUME, EXTEND, OTHER, Booking

ROW = str(uuid.uuid4())


def run(module: str, function: str, variables: dict[str, Any], inner: types.FunctionType | None = None) -> Any:
    """Return what a function of that module and name, with these variables, tells; ``inner`` is called in it."""

    def body() -> Any:
        return (inner or quota_operations.of_frames)()

    names = "\n".join(f"    {name} = variables[{name!r}]" for name in variables)
    scope: dict[str, Any] = {"__name__": module, "variables": variables, "body": body}
    exec(f"def called():\n{names}\n    return body()", scope)  # noqa: S102
    called = scope["called"]
    called.__code__ = called.__code__.replace(co_qualname=function)
    return called()


class Row:
    id = ROW


@pytest.mark.parametrize(("module", "function"), list(quota_operations.CALLERS))
@pytest.mark.parametrize("row", [ROW, Row(), {"id": ROW}], ids=["id", "object", "mapping"])
def test_a_caller_names_its_operation_and_its_row(module: str, function: str, row: Any) -> None:
    operation, variable = quota_operations.CALLERS[module, function]
    found = run(module, function, {} if variable is None else {variable: row})
    assert found == Booking(operation, None if variable is None else ROW)


def test_a_function_that_is_not_known_is_another_operation() -> None:
    assert run("cinder.volume.api", "API.new", {}) == Booking(OTHER)


def test_a_row_without_a_uuid_is_another_operation() -> None:
    assert run("cinder.backup.api", "API._get_import_backup", {"backup_record": {"id": "b1"}}) == Booking(OTHER)


def test_a_correction_of_a_size_is_told_by_the_function_around_it() -> None:
    def task() -> Any:
        options = {"optional_args": {"update_size": True}}
        return run("cinder.volume.flows.api.create_volume", "QuotaReserveTask.execute", options)

    found = run("cinder.volume.manager", "VolumeManager.manage_existing", {"volume": Row()}, task)
    assert found == Booking(quota_operations.MANAGE_VOLUME, ROW)
    options = {"optional_args": {"is_quota_committed": False}}
    found = run("cinder.volume.flows.api.create_volume", "QuotaReserveTask.execute", options)
    assert found == Booking(CREATE_VOLUME)


@pytest.mark.parametrize("operation", quota_operations.OPERATIONS.values(), ids=lambda operation: operation.name)
def test_an_identifier_names_the_operation_and_the_row(operation: quota_operations.Operation) -> None:
    is_bound = operation.makes is None and operation is not OTHER
    booking = Booking(operation, ROW if is_bound else None)
    identifier = booking.identifier()
    assert len(identifier) == 36
    assert quota_operations.of_identifier(identifier) == booking


def test_an_identifier_of_a_new_snapshot_does_not_name_its_volume() -> None:
    identifier = Booking(quota_operations.CREATE_SNAPSHOT, ROW).identifier()
    assert uuid.UUID(ROW).hex not in identifier
    assert quota_operations.of_identifier(identifier) == Booking(quota_operations.CREATE_SNAPSHOT)


def test_identifiers_of_one_row_differ() -> None:
    assert len({Booking(EXTEND, ROW).identifier() for _ in range(20)}) > 10


def test_an_identifier_of_cinders_own_driver_names_nothing() -> None:
    assert not any(quota_operations.of_identifier(str(uuid.uuid4())) for _ in range(200))
    assert quota_operations.of_identifier("") is None


def test_no_code_is_a_hexadecimal_digit() -> None:
    assert not set(quota_operations.OPERATIONS) & set("0123456789abcdef")
    assert len(quota_operations.OPERATIONS) == 12
