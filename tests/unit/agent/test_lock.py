# SPDX-License-Identifier: Apache-2.0
"""The lock file of a backend."""

import os
import pathlib
import subprocess
import sys

import pytest

from tonnage.agent.lock import BackendLock
from tonnage.capacity import errors
from tonnage.rpc.messages import AgentProcess

HOLDER = """
import sys
from tonnage.agent.lock import BackendLock
BackendLock(sys.argv[1], "host@b").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_by_one_and_named_to_the_other(tmp_path: pathlib.Path) -> None:
    first, second = BackendLock(str(tmp_path), "host@b"), BackendLock(str(tmp_path), "host@b")
    first.acquire()
    with pytest.raises(errors.ConfigurationError) as caught:
        second.acquire()
    assert caught.value.message == (
        f"backend host@b is run by another process (process {os.getpid()}), which holds the lock file "
        f"{tmp_path}/host@b.lock; stop that process first"
    )
    BackendLock(str(tmp_path), "host@other").acquire()
    first.release()
    second.acquire()
    second.release()


def test_holders_of_one_lock_have_it_in_their_nonces(tmp_path: pathlib.Path) -> None:
    holders = []
    for folder in ("one", "one", "two"):
        lock = BackendLock(str(tmp_path / folder), "host@b")
        lock.acquire()
        holders.append(lock.holder())
        lock.release()
    assert holders[0].lock == holders[1].lock != holders[2].lock
    assert len({each.nonce for each in holders}) == 3
    for each in holders:
        assert len(each.nonce) <= 64
        assert AgentProcess.from_nonce(each.nonce) == each
        assert each.name.startswith(f"{os.getpid()}@")
    assert AgentProcess.from_nonce("0123456789abcdef") is None


def test_a_lock_ends_with_the_process_however_it_ends(tmp_path: pathlib.Path) -> None:
    lock = BackendLock(str(tmp_path), "host@b")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(errors.ConfigurationError, match=rf"process {holder.pid}"):
            lock.acquire()
        holder.kill()
        holder.wait()
    lock.acquire()
    lock.release()


def test_a_folder_that_cannot_be_used_names_the_option(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ConfigurationError, match=r"Not a directory; \[DEFAULT\] state_path has to be a folder"):
        BackendLock(str(tmp_path / "file" / "locks"), "host@b").acquire()
