# SPDX-License-Identifier: Apache-2.0
"""The version of the RPC, and what may be sent to processes of an older release.

A message is sent as the version that it came with, so that everything of 1.0 reaches every process. What came later is
sent if all receivers are known to take it: operators pin that as in OpenStack, ``[upgrade_levels] scheduler = 1.0``, or
leave it to the processes (``auto``), which tell each other when they meet and through the ledger.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.rpc import option_errors

LOG = logging.getLogger(__name__)

FIRST = "1.0"
CURRENT = "1.1"
AUTO = "auto"
GROUP = "upgrade_levels"

_CHOICES = [
    (AUTO, "the latest that all who get the message understand"),
    (FIRST, "each request for itself"),
    (CURRENT, "groups, migrations and other requests of the second release; many in one message"),
]

OPTIONS = (
    cfg.StrOpt(
        "scheduler",
        default=AUTO,
        choices=_CHOICES,
        help="Latest version of the RPC that is sent to schedulers. 'auto' is the least that a running scheduler "
        "understands. Set the old one before an upgrade in which old and new schedulers run side by side, and remove "
        "it when the last one is new.",
    ),
    cfg.StrOpt(
        "agent",
        default=AUTO,
        choices=_CHOICES,
        help="Latest version of the RPC that is sent to agents. 'auto' is what each of them said that it understands.",
    ),
)


class NotUnderstood(errors.Unavailable):
    """A process of an older release got, or would get, a message that came with a later one."""


def reaches(version: str, needed: str) -> bool:
    """Tell whether a process that understands ``version`` takes a message that came with ``needed``."""
    return _key(version) >= _key(needed)


def least(versions: Iterable[str]) -> str:
    """Return the least of these versions, and at most what this code speaks."""
    return "{}.{}".format(*min(_key(version) for version in (*versions, CURRENT)))


def require(needed: str, version: str, method: str, receiver: str, option: str) -> None:
    """Raise :class:`NotUnderstood` unless a receiver of that version takes a message that came with ``needed``."""
    if not reaches(version, needed):
        raise NotUnderstood(
            f"{method} needs version {needed} of the RPC and {receiver} is sent {version}: end the upgrade, then look "
            f"at [{GROUP}] {option}"
        )


def _key(version: str) -> tuple[int, int]:
    """Return what versions are compared by. What is no version is as good as the first."""
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else _key(FIRST)


class Cap:
    """The latest version to send to one kind of receiver, ``scheduler`` or ``agent``."""

    def __init__(self, conf: cfg.ConfigOpts, kind: str) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for a version that this code does not know."""
        try:
            self._pinned: str = conf[GROUP][kind]
        except ValueError as error:
            raise errors.ConfigurationError(option_errors.complaint(conf, kind, GROUP, error)) from None

    def of(self, told: Callable[[], str]) -> str:
        """Return what the operator pinned, else what the receiver told, which is asked only then."""
        return least([told()]) if self._pinned == AUTO else self._pinned


class Remembered:
    """What ``read`` returned, asked again after some seconds; callable from any thread.

    If it cannot be read, the last value goes on, at first :data:`FIRST`, which everybody takes.
    """

    def __init__(
        self, read: Callable[[], str], seconds: float = 5.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._value = FIRST
        self._due = clock()
        self._failed = False

    def __call__(self) -> str:
        """Return the value."""
        with self._lock:
            now = self._clock()
            if now < self._due:
                return self._value
            # Others go on with the old one meanwhile.
            self._due = now + self._seconds
        try:
            value = self._read()
        except Exception as error:
            level = logging.DEBUG if self._failed else logging.WARNING
            self._failed = True
            LOG.log(level, "The version of the RPC to speak is not known anew, %s goes on: %s", self._value, error)
            return self._value
        self._failed = False
        if value != self._value:
            LOG.info("Version %s of the RPC is spoken from now on", value)
            self._value = value
        return value
