# SPDX-License-Identifier: Apache-2.0
"""The page on TLS: its commands, and its files with real servers."""

import configparser
import contextlib
import dataclasses
import os
import pathlib
import pwd
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception

from tests import suites
from tests.functional import console
from tests.functional.deployment import Addresses, Deployment, standalone
from tests.servers import base
from tests.servers.base import wait_for
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tonnage.ledger.db import database

DOCS = pathlib.Path(__file__).parents[2] / "docs"
COMMANDS = list(console.commands((DOCS / "tls.rst").read_text(encoding="utf-8")))
HOSTS = ("db1.example.com", "mq1.example.com", "storage.example.com")


class Certificates:
    """The folder of the page's certificates, which are all for ``localhost``, and the page's files for it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def localized(self, text: str) -> str:
        for host in HOSTS:
            text = text.replace(host, "localhost")
        return text.replace("/etc/ssl/tonnage", str(self.folder))

    def example(self, name: str) -> str:
        return self.localized((DOCS / "examples" / "tls" / name).read_text(encoding="utf-8"))

    def options(self, name: str, section: str = "") -> dict[str, str]:
        """Return the options of a section of a file of the page."""
        parser = configparser.ConfigParser(interpolation=None, default_section="")
        parser.read_string(self.example(name) if section else f"[all]\n{self.example(name)}")
        return dict(parser[section or "all"])

    def give_to(self, account: pwd.struct_passwd | None) -> None:
        for file in (self.folder, *self.folder.iterdir()):
            if account is not None:
                os.chown(file, account.pw_uid, account.pw_gid)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certificates]:
    """The folder with the files that the page's commands make. The servers' accounts can read it."""
    if shutil.which("openssl") is None:
        suites.cannot_run("TLS", "no openssl on this machine; install the package openssl")
    with tempfile.TemporaryDirectory(prefix="tonnage-tls-", dir="/tmp") as folder:
        made = Certificates(pathlib.Path(folder))
        with console.Shell() as shell:
            shell.run(f"cd {folder}")
            for command in COMMANDS:
                if command.text.startswith(("openssl", "for host", "cat ")):
                    printed = shell.run(made.localized(command.text))
                    assert dataclasses.replace(command, shown=made.localized(command.shown)).matches(printed), printed
            # An authority of the same name that has not signed the certificates.
            shell.run(COMMANDS[0].text.replace("ca.", "other."))
        yield made


class TlsPostgreSQL(PostgreSQL):
    """PostgreSQL with the page's options, which listens on a port."""

    def __init__(self, certificates: Certificates) -> None:
        super().__init__()
        self._certificates, self.port = certificates, base.free_port()

    def prepare(self) -> None:
        super().prepare()
        self._certificates.give_to(base.unprivileged_user())
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(f"port = {self.port}\n" + self._certificates.example("postgresql.conf"))
        self.url += f"&port={self.port}"

    def popen(self, command: Any, **more: Any) -> "subprocess.Popen[bytes]":
        listening = [f"{word}localhost" if word == "listen_addresses=" else word for word in command]
        return super().popen(listening, **more)

    def _ready(self) -> bool:
        with contextlib.suppress(sa.exc.OperationalError):
            return bool(self.execute("SELECT 1"))
        return False


class TlsMariaDB(MariaDB):
    """MariaDB with the page's options, which listens on a port."""

    def __init__(self, certificates: Certificates) -> None:
        super().__init__()
        self._certificates, self.port = certificates, base.free_port()

    def popen(self, command: Any, **more: Any) -> "subprocess.Popen[bytes]":
        options = self._certificates.options("mariadb.cnf", "mariadbd")
        network = [f"--{name}={value}" for name, value in options.items()]
        network += [f"--port={self.port}", "--bind-address=127.0.0.1"]
        return super().popen([word for word in command if word != "--skip-networking"] + network, **more)


class TlsRabbitMQ(RabbitMQ):
    """RabbitMQ with the page's file and no port without TLS."""

    def __init__(self, certificates: Certificates) -> None:
        super().__init__(managed=False)
        self._certificates, self.port = certificates, base.free_port()

    def prepare(self) -> None:
        super().prepare()
        file = self.folder / "rabbitmq.conf"
        ours = self._certificates.example("rabbitmq.conf").replace("5671", f"127.0.0.1:{self.port}")
        file.write_text(f"{file.read_text()}\n{ours}")
        del self._env["RABBITMQ_NODE_PORT"], self._env["RABBITMQ_NODE_IP_ADDRESS"]
        self.url = f"rabbit://guest:guest@localhost:{self.port}/"

    def _ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self._certificates.folder / "ca.pem"))
        try:
            with socket.create_connection(("localhost", self.port), timeout=5) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def bus(certificates: Certificates) -> Iterator[TlsRabbitMQ]:
    if not RabbitMQ.installed():
        suites.cannot_run("TLS", "no RabbitMQ on this machine")
    with TlsRabbitMQ(certificates) as server:
        yield server


@pytest.mark.heavy
def test_daemons_work_with_the_files_of_the_page(certificates: Certificates, bus: TlsRabbitMQ) -> None:
    if not PostgreSQL.installed():
        suites.cannot_run("TLS", "no PostgreSQL on this machine")
    query = sa.make_url(certificates.options("tonnage.conf", "database")["connection"]).query
    with TlsPostgreSQL(certificates) as server:
        server.execute("CREATE DATABASE tonnage")
        url = sa.URL.create("postgresql+psycopg", "postgres", None, "localhost", server.port, "tonnage", query)
        sections = {"oslo_messaging_rabbit": certificates.options("tonnage.conf", "oslo_messaging_rabbit")}
        backends = {"one": {"filesystem_size_limit_gb": 2}}
        addresses = Addresses(url.render_as_string(hide_password=False), bus.url)
        with Deployment(addresses, backends, sections=sections) as tonnage:
            tonnage.launch("scheduler", "api", "agent")
            wait_for(lambda: tonnage.rest.is_healthy() and tonnage.rest.pools(), "the backend has reported")
            tonnage.rest.wait_until_available(tonnage.rest.create(1))
            encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_port > 0"
            assert server.execute(encrypted) == [(True,)]
            wrong = url.update_query_dict({"sslrootcert": str(certificates.folder / "other.pem")})
            with pytest.raises((sa.exc.OperationalError, exception.DBError), match="certificate verify failed"):
                database.create_engine(wrong).connect()
            assert tonnage.stop() == dict.fromkeys(tonnage.processes, 0), tonnage.logs()


@pytest.mark.parametrize(("authority", "host"), [("other.pem", "localhost"), ("ca.pem", "127.0.0.1")])
def test_a_bus_without_a_certificate_for_its_name_is_refused(
    certificates: Certificates, bus: TlsRabbitMQ, tmp_path: pathlib.Path, authority: str, host: str
) -> None:
    addresses = Addresses(f"sqlite:///{tmp_path}/unused", bus.url.replace("localhost", host))
    options = certificates.options("tonnage.conf", "oslo_messaging_rabbit")
    sections = {"oslo_messaging_rabbit": {**options, "ssl_ca_file": certificates.folder / authority}}
    with Deployment(addresses, {"one": {"filesystem_size_limit_gb": 2}}, sections=sections) as tonnage:
        tonnage.launch("agent")
        log = tonnage.processes["agent"].log
        wait_for(lambda: "certificate verify failed" in log.read_text(), "the certificate is refused")


def test_mariadb_with_the_options_of_the_page_takes_verified_connections_alone(certificates: Certificates) -> None:
    if not MariaDB.installed():
        suites.cannot_run("TLS", "no MariaDB on this machine")
    with TlsMariaDB(certificates) as server:
        server.execute("CREATE USER tonnage@localhost IDENTIFIED BY 'secret'")
        server.execute("GRANT ALL ON tonnage.* TO tonnage@localhost")
        url = f"mysql+pymysql://tonnage:secret@localhost:{server.port}/tonnage"
        engine = database.create_engine(f"{url}?ssl_ca={certificates.folder}/ca.pem")
        with engine.connect() as connection:
            ((_, cipher),) = connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'")
        engine.dispose()
        assert cipher
        other = f"?ssl_ca={certificates.folder}/other.pem"
        for query, words in (
            (other, "certificate verify failed"),
            ("?ssl_disabled=true", "Access denied|insecure transport"),
        ):
            with pytest.raises((sa.exc.OperationalError, exception.DBError), match=words):
                database.create_engine(url + query).connect()


def test_clients_reach_the_api_through_the_proxy_of_the_page(
    certificates: Certificates, tmp_path: pathlib.Path
) -> None:
    haproxy = base.find("haproxy")
    if haproxy is None or shutil.which("curl") is None:
        suites.cannot_run("TLS", "no haproxy or no curl on this machine; install the packages")
    with standalone({"one": {"filesystem_size_limit_gb": 2}}) as tonnage:
        port, file = base.free_port(), tmp_path / "haproxy.cfg"
        text = certificates.example("haproxy.cfg").replace("bind :8776", f"bind 127.0.0.1:{port}")
        file.write_text(text.replace("18776", str(tonnage.port)))
        [command] = [command for command in COMMANDS if command.text.startswith("curl")]
        with subprocess.Popen([haproxy, "-db", "-f", file]) as proxy, console.Shell() as shell:
            try:
                shell.run(f"cd {certificates.folder}")
                text = certificates.localized(command.text).replace("8776", str(port)).replace("curl ", "curl -s ")
                wait_for(lambda: command.matches(shell.run(f"{text}; echo")), f"the proxy answers {text}")
                refused = shell.run(text.replace("ca.pem", "other.pem") + "; echo $?")
                assert refused.strip() == "60"  # CURLE_PEER_FAILED_VERIFICATION
            finally:
                proxy.terminate()
