# SPDX-License-Identifier: Apache-2.0
"""What becomes of a command, for each verb and each way to fail."""

import pytest

from tests.unit.agent import fakes
from tests.unit.agent.fakes import command
from tonnage.agent.execution import OperationResult, execute
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.drivers.base import Source, Terms
from tonnage.rpc.messages import Source as GivenSource
from tonnage.rpc.messages import Verb

FULL = errors.CapacityExceeded("no room")
BUSY = errors.DriverError("array busy")
TIDY = errors.DriverError("array full", clean=True)
THERE = GivenSource(volume_id="s", pool="other@far#gold", size_gb=2, location="array:7")


@pytest.fixture
def able() -> fakes.CapableDriver:
    """A driver that also copies volumes and takes them over."""
    return fakes.CapableDriver()


def test_the_driver_gets_the_ratio_and_calculation_of_the_scheduler(driver: fakes.GatedDriver) -> None:
    assert execute(driver, command("c", "v", size_gb=7)) == OperationResult(ok=True, size_gb=7)
    [(volume,)] = driver.given
    assert (volume.id, volume.pool, volume.size_gb, volume.provisioning) == ("v", "pool", 7, "thin")
    assert volume.terms == Terms(ratio=20.0, calculation=Calculation.CINDER)


def test_an_extend_names_the_size_before_and_never_shrinks(driver: fakes.GatedDriver) -> None:
    driver.volumes["v"] = 3.0
    assert execute(driver, command("c", "v", Verb.EXTEND, size_gb=5)) == OperationResult(ok=True, size_gb=5)
    [(volume, size)] = driver.given
    assert (volume.size_gb, size) == (3, 5)
    assert execute(driver, command("c", "v", Verb.EXTEND, size_gb=2)) == OperationResult(ok=True, size_gb=5)


@pytest.mark.parametrize("verb", [Verb.DELETE, Verb.PURGE])
def test_a_delete_of_a_missing_volume_succeeds(driver: fakes.GatedDriver, verb: Verb) -> None:
    assert execute(driver, command("c", "v", verb)) == OperationResult(ok=True, size_gb=0)


def test_a_purge_deletes(driver: fakes.GatedDriver) -> None:
    driver.volumes["v"] = 3
    assert execute(driver, command("c", "v", Verb.PURGE)) == OperationResult(ok=True, size_gb=0)
    assert driver.volumes == {}


@pytest.mark.parametrize(("verb", "method"), [(Verb.CREATE, "clone"), (Verb.MIGRATE, "migrate")])
def test_a_copy_names_its_source(able: fakes.CapableDriver, verb: Verb, method: str) -> None:
    assert execute(able, command("c", "v", verb, size_gb=5, source=THERE)) == OperationResult(ok=True, size_gb=5)
    assert f"{method} v" in able.calls
    [(volume, source)] = able.given
    assert (volume.id, volume.pool, volume.size_gb) == ("v", "pool", 5)
    assert volume.terms == Terms(ratio=20.0, calculation=Calculation.CINDER)
    assert source == Source(id="s", backend="other@far", pool="gold", size_gb=2, location="array:7")


def test_a_manage_tells_the_size(able: fakes.CapableDriver) -> None:
    ended = execute(able, command("c", "v", Verb.MANAGE, size_gb=0, reference="lun 7"))
    assert ended == OperationResult(ok=True, size_gb=7.0)
    [(volume, reference)] = able.given
    assert (volume.id, volume.pool, reference) == ("v", "pool", "lun 7")


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (Verb.MIGRATE, "a migrate has to name where the volume is"),
        (Verb.MANAGE, "a manage has to name the volume on the storage"),
    ],
)
def test_what_is_missing_in_a_command(driver: fakes.GatedDriver, verb: Verb, words: str) -> None:
    assert execute(driver, command("c", "v", verb)) == OperationResult(ok=False, size_gb=0, clean=True, message=words)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (Verb.CREATE, "clone volumes"),
        (Verb.MIGRATE, "take over volumes from elsewhere"),
        (Verb.MANAGE, "manage volumes on the storage"),
    ],
)
def test_what_the_driver_cannot_do(driver: fakes.GatedDriver, verb: Verb, words: str) -> None:
    message = f"driver GatedDriver of backend host@backend cannot {words}"
    ended = execute(driver, command("c", "v", verb, source=THERE, reference="lun 7"))
    assert ended == OperationResult(ok=False, size_gb=0, clean=True, message=message)


@pytest.mark.parametrize(
    ("verb", "error", "size", "clean"),
    [
        (Verb.CREATE, FULL, 3, False),
        (Verb.CREATE, TIDY, 3, False),
        (Verb.CREATE, BUSY, 3, False),
        (Verb.EXTEND, FULL, 3, True),
        (Verb.EXTEND, TIDY, 3, True),
        (Verb.EXTEND, BUSY, 3, False),
        (Verb.EXTEND, errors.NotFound("gone"), 3, False),
        (Verb.DELETE, BUSY, 3, False),
        (Verb.DELETE, TIDY, 3, False),
        (Verb.PURGE, BUSY, 3, False),
        (Verb.PURGE, TIDY, 3, False),
        (Verb.MIGRATE, FULL, 3, True),
        (Verb.MIGRATE, TIDY, 3, True),
        (Verb.MIGRATE, BUSY, 3, True),
        (Verb.MIGRATE, errors.NotFound("gone"), 3, True),
        (Verb.MANAGE, FULL, 3, False),
        (Verb.MANAGE, TIDY, 3, False),
        (Verb.MANAGE, BUSY, 3, False),
    ],
)
def test_a_failure_carries_the_drivers_message_and_the_size_on_the_storage(
    able: fakes.CapableDriver,
    verb: Verb,
    error: errors.TonnageError,
    size: float,
    clean: bool,
) -> None:
    able.volumes["v"] = 3
    able.failures["delete" if verb is Verb.PURGE else verb.value] = [error]
    given = {Verb.MIGRATE: {"source": THERE}, Verb.MANAGE: {"reference": "lun"}}.get(verb, {})
    assert execute(able, command("c", "v", verb, size_gb=5, **given)) == OperationResult(
        ok=False, size_gb=size, clean=clean, message=error.message
    )


@pytest.mark.parametrize("error", [FULL, TIDY])
@pytest.mark.parametrize(("verb", "there"), [(Verb.CREATE, 0), (Verb.CREATE, 5), (Verb.MIGRATE, 0), (Verb.MIGRATE, 5)])
def test_a_clean_failure_is_one_that_leaves_nothing_whoever_made_it(
    able: fakes.CapableDriver, verb: Verb, there: int, error: errors.TonnageError
) -> None:
    """The process before this one may have made the volume and died before it could tell."""
    if there:
        able.volumes["v"] = there
    able.failures[verb.value] = [error]
    ended = execute(able, command("c", "v", verb, size_gb=5, source=THERE if verb is Verb.MIGRATE else None))
    # What is there before a migration begins is never taken for what it has made.
    clean = not there or verb is Verb.MIGRATE
    assert ended == OperationResult(ok=False, size_gb=there, clean=clean, message=error.message)


def test_an_extend_that_got_half_way_tells_how_far(driver: fakes.GatedDriver) -> None:
    driver.volumes["v"] = 3
    driver.on_entry["extend"] = lambda: driver.volumes.update(v=4)
    driver.failures["extend"] = [BUSY]
    assert execute(driver, command("c", "v", Verb.EXTEND, size_gb=5)).size_gb == 4


@pytest.mark.parametrize(("verb", "size"), [(Verb.CREATE, 0), (Verb.DELETE, 5), (Verb.PURGE, 5)])
def test_a_storage_that_cannot_tell_is_taken_to_be_as_it_was(
    driver: fakes.GatedDriver, verb: Verb, size: float
) -> None:
    method = "delete" if verb is Verb.PURGE else verb.value
    driver.volumes["v"] = 3
    driver.failures[method] = [BUSY]
    silence: list[BaseException] = [errors.DriverError("array still busy") for _ in range(50)]
    driver.on_entry[method] = lambda: driver.failures.update(list=silence)
    assert execute(driver, command("c", "v", verb, size_gb=5)) == OperationResult(
        ok=False, size_gb=size, clean=False, message="array busy"
    )


@pytest.mark.parametrize("before", [True, False])
def test_an_extend_of_a_volume_that_nobody_can_look_at_is_unknown(driver: fakes.GatedDriver, before: bool) -> None:
    driver.volumes["v"] = 3
    silence: list[BaseException] = [errors.DriverError("array still busy") for _ in range(50)]
    if before:
        driver.failures["list"] = silence
    else:
        driver.failures["extend"] = [BUSY]
        driver.on_entry["extend"] = lambda: driver.failures.update(list=silence)
    ended = execute(driver, command("c", "v", Verb.EXTEND, size_gb=5), is_repeated=before)
    message = (
        "array still busy; its outcome is not known yet, and the agent repeats it"
        if before
        else "array busy; the size of the volume is not known, and the agent repeats it"
    )
    assert ended == OperationResult(ok=False, size_gb=5, unknown=True, message=message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BUSY, "array busy"),
        (TIDY, TIDY.message),
        (ZeroDivisionError("secret"), "extend of volume v failed on backend host@backend with an internal error "),
    ],
)
@pytest.mark.parametrize("is_repeated", [False, True])
def test_only_a_repeated_extend_is_repeated_if_the_storage_cannot_list(
    driver: fakes.GatedDriver, error: Exception, message: str, is_repeated: bool
) -> None:
    """Another extend has not begun: it ends without an effect, whatever the size of the volume is."""
    driver.volumes["v"] = 3
    driver.failures["list"] = [error] * 50
    ended = execute(driver, command("c", "v", Verb.EXTEND, size_gb=5), is_repeated)
    assert (ended.ok, ended.unknown, ended.clean) == (False, is_repeated, not is_repeated)
    assert ended.size_gb == (5 if is_repeated else 0)
    assert ended.message.startswith(message)
    assert "secret" not in ended.message
    assert driver.volumes["v"] == 3
    assert "extend v" not in driver.calls


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit])
def test_an_internal_error_is_logged_and_has_a_short_message(
    driver: fakes.GatedDriver, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    driver.failures["create"] = [kind("secret figures")]
    ended = execute(driver, command("c", "v"))
    assert ended == OperationResult(
        ok=False,
        size_gb=0,
        message="create of volume v failed on backend host@backend with an internal error "
        f"({kind.__name__}); the agent's log says more",
    )
    assert "secret figures" in caplog.text


def test_extending_a_volume_that_is_not_there(driver: fakes.GatedDriver) -> None:
    assert execute(driver, command("c", "v", Verb.EXTEND)) == OperationResult(
        ok=False, size_gb=0, message="volume v is not in pool host@backend#pool"
    )


def test_a_driver_that_cannot_extend_is_not_asked_to(driver: fakes.GatedDriver) -> None:
    driver.supports_extend = False
    driver.volumes["v"] = 3
    assert execute(driver, command("c", "v", Verb.EXTEND, size_gb=5)) == OperationResult(
        ok=False, size_gb=3, clean=True, message="the driver of backend host@backend cannot extend volumes"
    )
