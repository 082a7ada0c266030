# SPDX-License-Identifier: Apache-2.0
"""Webhooks, mail and the like, by Apprise: it knows how to talk to more services than anybody wants to.

An address may be a secret in any of its parts, so none is ever named but by what it is called in the configuration, its
number there and what kind it is.
"""

import contextlib
import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tonnage.capacity import errors
from tonnage.ledger.catalog import notification_outbox
from tonnage.notifications import payloads
from tonnage.notifications.bus import NotSent

#: A name before a URL, as Apprise's own files have tags. Databases differ in whether they tell cases apart.
_NAMED = re.compile(r"([a-z0-9][a-z0-9_.-]{0,31})=(?=[A-Za-z0-9]+:)")

#: How often a URL is hashed for a channel. It may hold a password, which nobody who reads the ledger should find out by
#: trying.
_ROUNDS = 100_000


class Alert:
    """One address that is told of pools that hold more than they should."""

    def __init__(self, number: int, entry: str) -> None:
        """``entry`` is a URL, or ``name=URL``, and ``number`` its place in the configuration, beginning with 1.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be used.
        """
        named = _NAMED.match(entry)
        url = entry[named.end() :] if named else entry
        try:
            import apprise  # takes half a second
        except ImportError as error:
            raise errors.ConfigurationError(
                f"option capacity_alert_urls needs a library that is not installed ({error}): install tonnage[alerts]"
            ) from error
        with _silent(logging.getLogger("apprise")):
            service = apprise.Apprise.instantiate(url)
        if not service:
            raise errors.ConfigurationError(
                f"option capacity_alert_urls: number {number} is no URL that Apprise can use; "
                "'apprise --dry-run --body=test URL' says more. (A name before it, as in name=URL, is of lower-case "
                "letters, digits, '_', '.' and '-', at most 32 of them.)"
            )
        self._service: Any = service
        self._kind = str(service.service_name)
        self._url = url
        self.number = number
        #: What waits for it in the outbox, wherever in the configuration it stands.
        self.channel = f"alert:{named[1]}" if named else f"alert-{_hashed(url)}"

    def is_same(self, other: "Alert") -> bool:
        """Tell whether another one leads to the same place."""
        return self._url == other._url

    def send(self, message: notification_outbox.Message) -> None:
        """Tell about a crossing. Raises :class:`~tonnage.notifications.bus.NotSent` if that did not work."""
        title, text = described(message.payload)
        exceeded = message.event_type == payloads.EXCEEDED
        kind = "warning" if exceeded else "success"
        if not self._service.notify(title=title, body=f"{text}\nmessage id {message.id}", notify_type=kind):
            raise NotSent(
                f"{message.event_type} could not be sent to {self._kind} (number {self.number} of "
                "capacity_alert_urls), which was not reached or refused"
            )


def alerts(entries: Iterable[str]) -> list[Alert]:
    """Return an alert for each entry of the configuration; of those that are the same, one.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for what cannot be used.
    """
    made: dict[str, Alert] = {}
    for number, entry in enumerate(entries, 1):
        alert = Alert(number, entry)
        first = made.setdefault(alert.channel, alert)
        if not first.is_same(alert):
            raise errors.ConfigurationError(
                f"option capacity_alert_urls: numbers {first.number} and {number} have the same name, "
                f"{alert.channel.partition(':')[2]}"
            )
    return list(made.values())


def described(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return a title and a text that say what an announcement of a crossing says."""
    name, reasons = payload["name_to_id"], payload["reasons"]
    title = f"Pool {name} holds " + (f"too much: {' and '.join(reasons)}" if reasons else "no more than it should")
    lines = [
        f"in use: {_of(payload['used_percent'])} % of {_of(payload['total'])} GiB, {_of(payload['free'])} GiB free; "
        f"announced above {payload['exceeded_percent']:g} %",
        f"provisioned: {_of(payload['provisioned'])} GiB of at most {_of(payload['provisioned_limit'])} GiB "
        f"(ratio {_of(payload['max_over_subscription_ratio'])})",
        f"allocated: {_of(payload['allocated'])} GiB",
        f"reported at {payload['reported_at']} UTC",
    ]
    return title, "\n".join(lines)


def _of(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _hashed(url: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", url.encode(), b"capacity_alert_urls", _ROUNDS, dklen=8).hex()


@contextlib.contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """What is wrong with an address it says with the address."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
