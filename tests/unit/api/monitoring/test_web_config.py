# SPDX-License-Identifier: Apache-2.0
"""The file with the certificate and the users of the metrics."""

import base64
import os
import pathlib
import shutil
import ssl
import subprocess

import bcrypt
import pytest

from tonnage.api.monitoring.web_config import WebConfig
from tonnage.capacity import errors


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def header(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users:\n  prometheus: {hashed('secret')}\n")
    return path


def test_only_known_users_are_admitted(file: pathlib.Path) -> None:
    config = WebConfig(str(file))
    for _ in range(2):
        assert config.admits(header("prometheus", "secret"))
        assert not config.admits(header("prometheus", "Secret"))
        assert not config.admits(header("nobody", "secret"))
        assert not config.admits(None)
        assert not config.admits("Bearer x")
        assert not config.admits("Basic !!!")
    assert config.tls() is None


def test_a_changed_file_is_read_again_and_an_unusable_one_is_not_used(file: pathlib.Path) -> None:
    config = WebConfig(str(file))
    assert config.admits(header("prometheus", "secret"))
    file.write_text(f"basic_auth_users: {{prometheus: {hashed('another')}}}  # changed\n")
    assert not config.admits(header("prometheus", "secret"))
    assert config.admits(header("prometheus", "another"))
    file.write_text("basic_auth_users: [\n")
    assert config.admits(header("prometheus", "another"))
    os.remove(file)
    assert config.admits(header("prometheus", "another"))


def test_a_file_without_users_admits_everybody(file: pathlib.Path) -> None:
    file.write_text("")
    assert WebConfig(str(file)).admits(None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("basic_auth_users: [a]", "Expected `object`, got `array`"),
        ("basic_auth_users: {a: plain}", "the hash of a is not one of bcrypt"),
        ("http_server_config: {http2: true}", "Object contains unknown field `http_server_config`"),
        ("{", "while parsing a flow"),
        ("tls_server_config: {cert_file: none.pem, key_file: none.key}", "No such file or directory"),
    ],
)
def test_an_unusable_file_is_an_error_of_the_configuration(file: pathlib.Path, content: str, problem: str) -> None:
    file.write_text(content)
    with pytest.raises(errors.ConfigurationError, match=problem) as caught:
        WebConfig(str(file)).tls()
    assert f"[metrics] web_config_file = {file}" in str(caught.value)


@pytest.mark.parametrize(
    "option", ["client_auth_type: Perhaps", "min_version: SSL3", "client_auth_type: RequireAndVerifyClientCert"]
)
def test_settings_of_tls_are_checked(file: pathlib.Path, tmp_path: pathlib.Path, option: str) -> None:
    for name in ("cert.pem", "cert.key"):
        (tmp_path / name).write_text("")
    file.write_text(f"tls_server_config: {{cert_file: cert.pem, key_file: cert.key, {option}}}")
    with pytest.raises(errors.ConfigurationError, match=option.partition(":")[0]):
        WebConfig(str(file)).tls()


def certificate(folder: pathlib.Path, name: str) -> None:
    """Write a certificate for localhost that only those accept who trust it."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *files], cwd=folder, check=True, capture_output=True)


def accepts(server: ssl.SSLContext, authority: pathlib.Path) -> bool:
    """Return whether a client that trusts this certificate alone gets through the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cafile=str(authority))
    client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    peer = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, peer):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return client.version() is not None


def test_a_renewed_certificate_is_used_from_the_next_handshake_on(tmp_path: pathlib.Path) -> None:
    for name in ("first", "second"):
        certificate(tmp_path, name)
    path = tmp_path / "web.yml"
    path.write_text("tls_server_config: {cert_file: current.pem, key_file: current.key}\n")
    for ending in ("pem", "key"):
        shutil.copy(tmp_path / f"first.{ending}", tmp_path / f"current.{ending}")
    newest = WebConfig(str(path)).tls()
    assert newest is not None
    assert accepts(newest(), tmp_path / "first.pem")
    for ending in ("pem", "key"):
        shutil.copy(tmp_path / f"second.{ending}", tmp_path / f"current.{ending}")
    assert accepts(newest(), tmp_path / "second.pem")
    assert not accepts(newest(), tmp_path / "first.pem")


def test_a_changed_authority_of_clients_is_used_from_the_next_connection_on(tmp_path: pathlib.Path) -> None:
    """A context keeps its authority and its sessions, so another one has to replace it."""
    for name in ("first", "second"):
        certificate(tmp_path, name)
    path, authority = tmp_path / "web.yml", tmp_path / "clients.pem"
    shutil.copy(tmp_path / "first.pem", authority)
    path.write_text(
        "tls_server_config: {cert_file: first.pem, key_file: first.key, client_ca_file: clients.pem,"
        " client_auth_type: RequireAndVerifyClientCert}\n"
    )
    newest = WebConfig(str(path)).tls()
    assert newest is not None
    before = newest()
    assert newest() is before
    shutil.copy(tmp_path / "second.pem", authority)
    assert newest() is not before
    [trusted] = newest().get_ca_certs(binary_form=True)
    assert trusted == ssl.PEM_cert_to_DER_cert((tmp_path / "second.pem").read_text())
