# SPDX-License-Identifier: Apache-2.0
"""Alerts about pools that exceed their thresholds, sent by Apprise to webhooks, mailboxes and chats.

Any part of an address may be secret. Messages therefore identify an address by its configured name, its position in the
configuration and the kind of its service, and never contain the address.
"""

import contextlib
import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tonnage import installation
from tonnage.capacity import errors
from tonnage.extensions.announcements import notification_outbox, payloads
from tonnage.extensions.announcements.bus import NotSent

#: A name before a URL, like the tags in Apprise's own files. Lower case only, because databases differ in whether they
#: distinguish cases.
_NAME_PREFIX = re.compile(r"([a-z0-9][a-z0-9_.-]{0,31})=(?=[A-Za-z0-9]+:)")

#: Iterations of the hash of a URL in a channel's name. They make it expensive for readers of the ledger to guess a
#: password in the URL.
_HASH_ITERATIONS = 100_000


class Alert:
    """An address that receives alerts about pools that exceed their thresholds."""

    def __init__(self, number: int, entry: str) -> None:
        """Create an alert from a configured ``entry``, which is a URL or ``name=URL``.

        ``number`` is its position in the configuration, from 1. Raises
        :class:`~tonnage.capacity.errors.ConfigurationError` if Apprise cannot use the URL.
        """
        named = _NAME_PREFIX.match(entry)
        url = entry[named.end() :] if named else entry
        try:
            import apprise  # takes half a second
        except ImportError as error:
            raise errors.ConfigurationError(
                f"option capacity_alert_urls needs a library that is not installed ({error}); install it with: "
                f"{installation.install_command('alerts')}"
            ) from error
        with _logger_disabled(logging.getLogger("apprise")):
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
        #: Channel of its messages in the outbox. It does not depend on the position in the configuration.
        self.channel = f"alert:{named[1]}" if named else f"alert-{_url_digest(url)}"

    def same_url(self, other: "Alert") -> bool:
        """Return whether both alerts have the same URL."""
        return self._url == other._url

    def send(self, message: notification_outbox.Message) -> None:
        """Send a threshold crossing, or a failure of another extension.

        Raises :class:`~tonnage.extensions.announcements.bus.NotSent` if the service fails.
        """
        title, text = title_and_text(message.payload)
        notify_type = "success" if message.event_type == payloads.RECOVERED else "warning"
        if not self._service.notify(title=title, body=f"{text}\nmessage id {message.id}", notify_type=notify_type):
            raise NotSent(
                f"{message.event_type} could not be sent to {self._kind} (number {self.number} of "
                "capacity_alert_urls), which was not reached or refused"
            )


def from_entries(entries: Iterable[str]) -> list[Alert]:
    """Return an alert for each configured entry, and one for several identical entries.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an unusable entry, and for two entries of one name
    with different URLs.
    """
    alerts: dict[str, Alert] = {}
    for number, entry in enumerate(entries, 1):
        alert = Alert(number, entry)
        first = alerts.setdefault(alert.channel, alert)
        if not first.same_url(alert):
            raise errors.ConfigurationError(
                f"option capacity_alert_urls: numbers {first.number} and {number} have the same name, "
                f"{alert.channel.partition(':')[2]}"
            )
    return list(alerts.values())


def title_and_text(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the title and the text of an alert: those of the payload, or the figures of a threshold crossing."""
    if "title" in payload:
        return payload["title"], payload["text"]
    name, reasons = payload["name_to_id"], payload["reasons"]
    title = f"Pool {name} holds " + (f"too much: {' and '.join(reasons)}" if reasons else "no more than it should")
    lines = [
        f"in use: {_text(payload['used_percent'])} % of {_text(payload['total'])} GiB, "
        f"{_text(payload['free'])} GiB free; announced above {payload['exceeded_percent']:g} %",
        f"provisioned: {_text(payload['provisioned'])} GiB of at most {_text(payload['provisioned_limit'])} GiB "
        f"(ratio {_text(payload['max_over_subscription_ratio'])})",
        f"allocated: {_text(payload['allocated'])} GiB",
        f"reported at {payload['reported_at']} UTC",
    ]
    return title, "\n".join(lines)


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _url_digest(url: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", url.encode(), b"capacity_alert_urls", _HASH_ITERATIONS, dklen=8).hex()


@contextlib.contextmanager
def _logger_disabled(logger: logging.Logger) -> Iterator[None]:
    """Disable a logger: Apprise's log lines about an unusable address contain the address."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
