# SPDX-License-Identifier: Apache-2.0
"""Execution of one command with the driver."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tonnage.capacity import errors, plugin_errors
from tonnage.drivers.base import Driver, Source, Terms, Volume
from tonnage.rpc.messages import Command, Verb

LOG = logging.getLogger(__name__)

#: Verbs that remove the volume from the pool.
REMOVING = frozenset({Verb.DELETE, Verb.PURGE})

#: Verbs that are repeated while their outcome is unknown.
REPEATED = frozenset({Verb.CREATE, Verb.EXTEND, Verb.DELETE, Verb.PURGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """The result of an operation: the fields of an outcome that depend on the driver.

    While it is ``unknown``, ``size_gb`` is the size that the volume may have.
    """

    ok: bool
    size_gb: float
    clean: bool = False
    message: str = ""
    unknown: bool = False


def execute(driver: Driver, command: Command, is_repeated: bool = False) -> OperationResult:
    """Execute the command with the driver and return the result, also for a failure.

    ``is_repeated`` is true if the result of the command was unknown before, or if an earlier process may have run it.
    It raises nothing, not even an exception by which a library of the driver would end the process.
    """
    before = 0.0
    foreign = False
    try:
        if command.verb is Verb.EXTEND:
            before = _size_before(driver, command, is_repeated)
        elif command.verb is Verb.MIGRATE:
            foreign = _stored_size(driver, command) is not None
        return OperationResult(ok=True, size_gb=_VERBS[command.verb](driver, command, before))
    except errors.TonnageError as error:
        if command.verb in REPEATED and _is_unknown(error, command, is_repeated):
            return _unknown(command, f"{error.message}; its outcome is not known yet, and the agent repeats it")
        # A driver without room for the volume has not begun, see Driver.create and the methods like it.
        clean = isinstance(error, errors.CapacityExceeded) or (isinstance(error, errors.DriverError) and error.clean)
        message = error.message
    except plugin_errors.CAUGHT as error:
        clean, message = False, _internal_error(driver, command, error)
    # Clean means that no new volume or size is left; a failed delete may leave the volume in any state. A refused
    # extend says nothing about an earlier one, whose effect only the list shows.
    clean = clean and command.verb not in REMOVING and not (is_repeated and command.verb is Verb.EXTEND)
    if foreign:
        # The copy was there before, so this command did not make it. It may be the volume itself, or another one, and
        # must not be taken for a copy to delete.
        return OperationResult(ok=False, size_gb=_size_after(driver, command, before), clean=True, message=message)
    if command.verb is Verb.EXTEND:
        size = before if clean else _size_if_known(driver, command)
        if size is None:
            # A volume that nobody can look at may have any of the two sizes. It counts with the larger one.
            return _unknown(command, f"{message}; the size of the volume is not known, and the agent repeats it")
    else:
        size = _size_after(driver, command, before)
    # The driver reports only this attempt. An earlier process may have made the volume and died before its outcome.
    return OperationResult(ok=False, size_gb=size, clean=clean and size <= before, message=message)


def _internal_error(driver: Driver, command: Command, error: BaseException) -> str:
    """Log an error of the driver's code, and return the message for users."""
    LOG.error("Backend %s: %s of volume %s failed", driver.backend, command.verb, command.volume_id, exc_info=error)
    return (
        f"{command.verb} of volume {command.volume_id} failed on backend {driver.backend} with an internal error "
        f"({type(error).__name__}); the agent's log says more"
    )


def _is_unknown(error: errors.TonnageError, command: Command, is_repeated: bool) -> bool:
    """Return whether the command may have had an effect, or may still have one, that is not known.

    After an unknown result a failure that is not clean says as little: the call of the storage may not have been made.
    """
    if isinstance(error, errors.OutcomeUnknown):
        return True
    is_failure = isinstance(error, errors.DriverError) and not error.clean
    return is_repeated and is_failure and command.verb not in REMOVING


def _unknown(command: Command, message: str) -> OperationResult:
    return OperationResult(ok=False, size_gb=float(command.size_gb), message=message, unknown=True)


def abandoned(command: Command) -> OperationResult:
    """Return the result of a command whose outcome is unknown and that a removal of the volume ends.

    The volume counts until it is removed.
    """
    message = f"{command.verb} of volume {command.volume_id}: its outcome was not known when the volume was deleted"
    return OperationResult(ok=False, size_gb=float(command.size_gb), message=message)


def _create(driver: Driver, command: Command, before: float) -> float:
    volume = _volume(command, command.size_gb)
    if command.source is None:
        driver.create(volume)
    else:
        driver.clone(volume, _source(command))
    return command.size_gb


def _migrate(driver: Driver, command: Command, before: float) -> float:
    driver.migrate(_volume(command, command.size_gb), _source(command))
    return command.size_gb


def _manage(driver: Driver, command: Command, before: float) -> float:
    if not command.reference:
        raise errors.DriverError("a manage has to name the volume on the storage", clean=True)
    return float(driver.manage(_volume(command, command.size_gb), command.reference))


def _extend(driver: Driver, command: Command, before: float) -> float:
    if not driver.supports_extend:
        raise errors.DriverError(f"the driver of backend {driver.backend} cannot extend volumes", clean=True)
    driver.extend(_volume(command, int(before)), command.size_gb)
    return max(command.size_gb, before)


def _delete(driver: Driver, command: Command, before: float) -> float:
    driver.delete(_volume(command, command.size_gb))
    return 0.0


_VERBS: dict[Verb, Callable[[Driver, Command, float], float]] = {
    Verb.CREATE: _create,
    Verb.EXTEND: _extend,
    Verb.DELETE: _delete,
    Verb.MIGRATE: _migrate,
    Verb.MANAGE: _manage,
    Verb.PURGE: _delete,
}


def _volume(command: Command, size_gb: int) -> Volume:
    return Volume(
        id=command.volume_id,
        pool=command.pool,
        size_gb=size_gb,
        provisioning=command.provisioning,
        terms=Terms(ratio=command.ratio, calculation=command.calculation),
        operation_id=command.claim_id,
    )


def _source(command: Command) -> Source:
    source = command.source
    if source is None:
        raise errors.DriverError(f"a {command.verb} has to name where the volume is", clean=True)
    backend, _, pool = source.pool.rpartition("#")
    return Source(id=source.volume_id, backend=backend, pool=pool, size_gb=source.size_gb, location=source.location)


def _stored_size(driver: Driver, command: Command) -> float | None:
    """Return the size of the volume on the storage in GiB, or None if it is not there."""
    for stored in driver.list_volumes():
        if stored.id == command.volume_id and stored.pool == command.pool:
            return stored.size_gb
    return None


def _size_before(driver: Driver, command: Command, is_repeated: bool) -> float:
    """Return the size of the volume in GiB before an extend.

    Raises NotFound if it is not there. If the driver cannot list, raises OutcomeUnknown for a repeated extend, which
    may have begun, and a clean DriverError for another.
    """
    try:
        size = _stored_size(driver, command)
    except plugin_errors.CAUGHT as error:
        message = error.message if isinstance(error, errors.TonnageError) else _internal_error(driver, command, error)
        if is_repeated:
            raise errors.OutcomeUnknown(message) from error
        raise errors.DriverError(message, clean=True) from error
    if size is None:
        raise errors.NotFound(f"volume {command.volume_id} is not in pool {driver.backend}#{command.pool}")
    return size


def _size_if_known(driver: Driver, command: Command) -> float | None:
    """Return the size in GiB of the volume after a failure, 0 if it is not there; None if the driver cannot list."""
    try:
        return _stored_size(driver, command) or 0.0
    except plugin_errors.CAUGHT as error:
        LOG.warning(
            "Backend %s cannot tell the size of volume %s after %s: %s",
            driver.backend,
            command.volume_id,
            command.verb,
            error,
        )
        return None


def _size_after(driver: Driver, command: Command, before: float) -> float:
    """Return the size in GiB of the volume after a failure; the size before it if the driver cannot list."""
    size = _size_if_known(driver, command)
    if size is None:
        return float(command.size_gb) if command.verb in REMOVING else before
    return size
