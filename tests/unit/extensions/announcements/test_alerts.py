# SPDX-License-Identifier: Apache-2.0
"""Tests of alerts that are sent to a web server and to a mail server."""

import email
import email.policy
import logging
import socketserver
import threading
from typing import Any

import pytest

from tests.unit.extensions.announcements.conftest import WebServer
from tonnage.capacity import errors
from tonnage.extensions.announcements import notification_outbox
from tonnage.extensions.announcements.alerts import Alert, from_entries
from tonnage.extensions.announcements.bus import NotSent

PAYLOAD: dict[str, Any] = {
    "name_to_id": "h@b#p",
    "reasons": ["physical"],
    "used_percent": 93.0,
    "total": 100.0,
    "free": 7.0,
    "exceeded_percent": 90.0,
    "provisioned": 150.0,
    "provisioned_limit": 200.0,
    "max_over_subscription_ratio": 2.0,
    "allocated": 120.0,
    "reported_at": "2026-11-21T14:20:00.000000",
    "exceeded_at": None,
}
EXCEEDED = notification_outbox.Message("an-id", "capacity.pool.exceeded", PAYLOAD)


def url(web: WebServer) -> str:
    return f"json://user:secret1@127.0.0.1:{web.server_port}/hooks/secret2?-token=secret3"


def test_a_webhook_receives_pool_and_figures(web: WebServer) -> None:
    alert = Alert(1, url(web))
    alert.send(EXCEEDED)
    recovered = {**PAYLOAD, "reasons": [], "used_percent": None, "free": None}
    alert.send(notification_outbox.Message("another-id", "capacity.pool.recovered", recovered))
    (path, first), (_, second) = web.posted
    assert path.startswith("/hooks/secret2")
    assert (first["title"], first["type"]) == ("Pool h@b#p holds too much: physical", "warning")
    assert first["message"].splitlines() == [
        "in use: 93.00 % of 100.00 GiB, 7.00 GiB free; announced above 90 %",
        "provisioned: 150.00 GiB of at most 200.00 GiB (ratio 2.00)",
        "allocated: 120.00 GiB",
        "reported at 2026-11-21T14:20:00.000000 UTC",
        "message id an-id",
    ]
    assert (second["title"], second["type"]) == ("Pool h@b#p holds no more than it should", "success")
    assert second["message"].startswith("in use: unknown % of 100.00 GiB, unknown GiB free")


def test_an_error_status_of_the_webhook_is_a_failure(web: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    alert = Alert(1, url(web))
    web.status = 500
    with pytest.raises(NotSent, match=r"could not be sent to JSON") as caught:
        alert.send(EXCEEDED)
    assert "secret" not in caplog.text + caught.value.message


@pytest.mark.parametrize("wrong", ["secret", "secret://host", "slack://secret", "mailto://user:secret@", "json://"])
def test_errors_name_an_unusable_address_by_its_number(wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(errors.ConfigurationError, match="capacity_alert_urls: number 3 is no URL") as caught:
        Alert(3, wrong)
    assert "secret" not in caplog.text + caught.value.message


def channels(*entries: str) -> list[str]:
    return [alert.channel for alert in from_entries(entries)]


def test_channels_do_not_depend_on_the_order_of_addresses() -> None:
    one, two, named = "json://user:secret@one/", "json://two/", "on-call=json://three/"
    first = channels(one, two, named)
    assert first[2] == "alert:on-call"
    assert len(set(first)) == 3
    assert channels(named, "json://four/", two, one)[::3] == [first[2], first[0]]
    assert channels("on-call=json://elsewhere/", two, two) == [first[2], first[1]]
    assert "secret" not in "".join(first)
    # The name is in the ledger, so it must not change in an upgrade.
    assert channels("json://two/") == ["alert-54d9474198153f69"]


def test_two_addresses_with_one_name_are_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"numbers 1 and 3 have the same name, on-call$"):
        from_entries(["on-call=json://secret1/", "json://two/", "on-call=json://secret2/"])


@pytest.mark.parametrize("name", ["On-Call", "-", "a" * 33, "on call", ""])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"number 1 is no URL .* lower-case"):
        from_entries([f"{name}=json://host/"])


class MailServer(socketserver.TCPServer):
    """A mail server that receives one mail at a time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SmtpHandler)
        self.mails: list[tuple[list[str], bytes]] = []


class _SmtpHandler(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._reply("220 ready")
        receivers: list[str] = []
        while line := self.rfile.readline().decode().strip():
            if line.upper().startswith("RCPT TO:"):
                receivers.append(line[8:].strip("<>"))
            if line.upper() == "DATA":
                self._reply("354 go on")
                self.server.mails.append((receivers, b"".join(iter(self.rfile.readline, b".\r\n"))))
            self._reply("221 bye" if line.upper() == "QUIT" else "250 ok")

    def _reply(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


def test_a_mailbox_receives_pool_and_figures() -> None:
    with MailServer() as mail_server:
        thread = threading.Thread(target=mail_server.serve_forever)
        thread.start()
        try:
            [alert] = from_entries(
                [f"mail=mailto://127.0.0.1:{mail_server.server_address[1]}?to=ops@here.test&from=me@here.test"]
            )
            alert.send(EXCEEDED)
        finally:
            mail_server.shutdown()
            thread.join()
    [(receivers, mail)] = mail_server.mails
    message = email.message_from_bytes(mail, policy=email.policy.default)
    assert receivers == ["ops@here.test"]
    assert message["Subject"] == "Pool h@b#p holds too much: physical"
    assert "in use: 93.00 % of 100.00 GiB, 7.00 GiB free" in mail.decode()
