# SPDX-License-Identifier: Apache-2.0
"""Certificates that change while the extender runs."""

import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from tests.kubernetes import manifests
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.extender.tls_reload import MutualTls

HOST = "tonnage-extender.tonnage.svc"
SCRIPT = manifests.FOLDER / "certificates" / "with-openssl.sh"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    """Certificates of two authorities."""
    folders = [tmp_path_factory.mktemp("made") / "certificates" for _ in range(2)]
    for folder in folders:
        subprocess.run([SCRIPT, folder], check=True, capture_output=True)
    return folders


@pytest.fixture
def files(tmp_path: pathlib.Path, made: list[pathlib.Path]) -> dict[str, str]:
    install(tmp_path, made[0])
    names = {"extender_cert_file": "tls.crt", "extender_key_file": "tls.key", "extender_ca_file": "ca.crt"}
    return {option: str(tmp_path / name) for option, name in names.items()}


def install(folder: pathlib.Path, made: pathlib.Path) -> None:
    """Replace the files as a volume of Kubernetes does: by others with the same names."""
    for name in ("tls.crt", "tls.key", "ca.crt"):
        shutil.copy(made / "extender" / name, folder / f"{name}.new")
        os.replace(folder / f"{name}.new", folder / name)


def client_context(made: pathlib.Path, *authorities: pathlib.Path) -> ssl.SSLContext:
    """Return the context of a kube-scheduler with these certificates, that trusts its own or other authorities."""
    context = ssl.create_default_context()
    for folder in authorities or (made,):
        context.load_verify_locations(folder / "kube-scheduler" / "ca.crt")
    context.load_cert_chain(made / "kube-scheduler" / "tls.crt", made / "kube-scheduler" / "tls.key")
    return context


def is_accepted(tls: MutualTls, made: pathlib.Path, authority: pathlib.Path | None = None) -> bool:
    """Return whether a kube-scheduler with these certificates reaches the extender, and each trusts the other."""
    return connect(tls, client_context(made, authority or made)) is not None


def connect(
    tls: MutualTls, client: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[ssl.SSLSession | None, bool] | None:
    """Return the session of a new connection and whether it is the given one again; None for a refused connection."""
    context = tls.context()
    ours, theirs = socket.socketpair()
    outcome: list[bool] = []

    def serve() -> None:
        try:
            with context.wrap_socket(ours, server_side=True) as connection:
                outcome.append(bool(connection.getpeercert()))
                connection.sendall(b"x")
        except (OSError, ssl.SSLError):
            outcome.append(False)
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=HOST, session=session) as connection:
            if connection.recv(1) != b"x":
                return None
            return connection.session, bool(connection.session_reused)
    except (OSError, ssl.SSLError):
        return None
    finally:
        theirs.close()
        thread.join()


def test_new_files_are_used_for_new_connections(
    tmp_path: pathlib.Path, made: list[pathlib.Path], files: dict[str, str]
) -> None:
    tls = MutualTls(files)
    assert [is_accepted(tls, folder) for folder in made] == [True, False]
    install(tmp_path, made[1])
    assert [is_accepted(tls, folder) for folder in made] == [False, True]
    # The authority of clients is the new one too.
    assert not is_accepted(tls, made[0], authority=made[1])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_of_the_earlier_authority_is_not_resumed(
    tmp_path: pathlib.Path, made: list[pathlib.Path], files: dict[str, str], version: ssl.TLSVersion
) -> None:
    tls = MutualTls(files)
    client = client_context(made[0], *made)
    client.maximum_version = version
    first = connect(tls, client)
    assert first is not None
    # Without a change sessions are resumed, so the refusal below is of the session.
    again = connect(tls, client, first[0])
    assert again is not None
    assert again[1]
    install(tmp_path, made[1])
    assert connect(tls, client, first[0]) is None
    new = client_context(made[1], *made)
    new.maximum_version = version
    assert connect(tls, new) is not None


def test_files_that_cannot_be_used_leave_the_earlier_ones_in_force(
    tmp_path: pathlib.Path, made: list[pathlib.Path], files: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    tls = MutualTls(files)
    (tmp_path / "tls.key").write_text("nothing", encoding="utf-8")
    assert [is_accepted(tls, made[0]) for _ in range(2)] == [True, True]
    assert caplog.text.count("The earlier certificates of the extender stay in force") == 1
    (tmp_path / "tls.key").unlink()
    assert is_accepted(tls, made[0])
    install(tmp_path, made[1])
    assert is_accepted(tls, made[1])


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot be read"), ("nothing", "cannot be used")])
def test_files_that_cannot_be_used_at_the_start_are_an_error(
    tmp_path: pathlib.Path, files: dict[str, str], content: str | None, problem: str
) -> None:
    path = tmp_path / "tls.crt"
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(errors.ConfigurationError, match=problem):
        MutualTls(files)
