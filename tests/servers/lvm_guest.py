# SPDX-License-Identifier: Apache-2.0
"""A private virtual machine with LVM and disks for tests. The host needs no device-mapper."""

import base64
import contextlib
import pathlib
import queue
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tests.servers import base, lvm_image

#: The sudoers file of the account in the guest, and the volume group in it.
SUDOERS = pathlib.Path(__file__).parents[2] / "etc/sudoers.d/tonnage-lvm"
PERMITTED = "tonnage-volumes"

_EXEC = pathlib.Path(__file__).with_name("guest_exec.py")

#: The number of commands that can run in the guest at the same time.
_LINES = 4


@dataclass(frozen=True, slots=True)
class Done:
    """The exit code and the output of a command in the guest."""

    code: int
    out: str
    err: str


class LvmGuest(base.Server):
    """A guest with four empty disks, ``/dev/vda`` to ``/dev/vdd``, of :attr:`disk_gb` GiB each.

    Programs of this machine run commands in it through :meth:`helper`, tests through :meth:`run`.
    """

    name = "LVM guest"
    packages = "qemu-system-x86 lvm2 thin-provisioning-tools, then run tools/install-servers.sh"
    disks: ClassVar[Sequence[str]] = ("vda", "vdb", "vdc", "vdd")
    disk_gb: ClassVar[int] = 12
    patience: ClassVar[float] = 400.0  # the processor is emulated

    @classmethod
    def installed(cls) -> bool:
        return base.find("qemu-system-x86_64") is not None and lvm_image.missing() is None

    def helper(self, *prefix: str) -> str:
        """Return a command prefix that runs a command in the guest, where ``prefix`` precedes it."""
        return shlex.join([sys.executable, "-IS", str(_EXEC), self.url, "/usr/sbin/env", *prefix])

    def run(self, *command: str, check: bool = True) -> Done:
        """Run a command in the guest as root. With ``check``, raises RuntimeError if the command fails."""
        return self.script(shlex.join(command), check=check)

    def script(self, text: str, check: bool = True) -> Done:
        """Run shell commands in the guest as root. With ``check``, raises RuntimeError if they fail."""
        code, out, err = self._request(base64.b64encode(text.encode())).rstrip(b"\n").split(b" ")
        done = Done(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())
        if check and done.code:
            raise RuntimeError(f"in the guest: {text}: exit code {done.code}: {done.err.strip()}")
        return done

    def prepare(self) -> None:
        lvm_image.build(self.folder / "image", _LINES, SUDOERS.read_text())
        for disk in self.disks:
            with (self.folder / disk).open("wb") as file:
                file.truncate(self.disk_gb << 30)
        self.url = str(self.folder / "exec")

    def launch(self) -> subprocess.Popen[bytes]:
        program = base.find("qemu-system-x86_64")
        assert program is not None
        self._lines: queue.Queue[socket.socket] = queue.Queue()
        self._asked: dict[socket.socket, str] = {}
        self._connected = 0
        command = [
            *(str(program), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            # If a guest can never have a second processor, QEMU omits barriers and atomic operations (before 8.1 all of
            # them, although its own threads use the same memory). Rarely an interrupt is lost, and a disk never answers
            # again.
            *("-machine", "q35", "-accel", "tcg", "-cpu", "Nehalem", "-smp", "1,maxcpus=2", "-m", "384"),
            *("-kernel", str(lvm_image.kernel()), "-initrd", str(self.folder / "image")),
            # With programs at fixed addresses, QEMU reuses the translation of one command for the next.
            *("-append", "console=ttyS0 quiet panic=-1 tsc=unstable no_timer_check mitigations=off norandmaps"),
            *("-serial", f"file:{self.folder}/console", "-device", "virtio-serial-pci,max_ports=16"),
        ]
        for line in range(1, _LINES + 1):
            command += ["-chardev", f"socket,id=line{line},path={self.folder}/line{line},server=on,wait=off"]
            command += ["-device", f"virtserialport,nr={line},chardev=line{line}"]
        for disk in self.disks:
            command += [
                "-drive",
                f"file={self.folder}/{disk},format=raw,if=virtio,cache=unsafe,discard=unmap,detect-zeroes=unmap",
            ]
        return self.popen(command)

    def _ready(self) -> bool:
        while self._connected < _LINES:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(f"{self.folder}/line{self._connected + 1}")
            except OSError:
                line.close()
                return False
            self._connected += 1
            line.settimeout(self.patience)
            if _answer(line) != b"ready\n":
                return False
            self._lines.put(line)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.url)
        self._listener.listen(64)
        threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()
        return True

    def close(self) -> None:
        """End the guest and all pending calls."""
        super().close()
        if hasattr(self, "_listener"):
            # close() alone would leave the thread blocked in accept().
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        while not self._lines.empty():
            self._lines.get().close()

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.sendall(self._request(_answer(client).strip()))

    def _request(self, question: bytes) -> bytes:
        asked = base64.b64decode(question).decode()
        try:
            line = self._lines.get(timeout=self.patience)
            self._asked[line] = asked
            line.sendall(question + b"\n")
            answer = _answer(line)
        except (queue.Empty, TimeoutError):
            said = (self.folder / "console").read_text(errors="replace")[-2000:]
            raise TimeoutError(
                f"no answer in {self.patience:.0f} s to {asked!r}; waited for: {list(self._asked.values())}; "
                f"on the console: {said}"
            ) from None
        del self._asked[line]
        self._lines.put(line)
        return answer


def _answer(line: socket.socket) -> bytes:
    """Receive a line."""
    received = b""
    while not received.endswith(b"\n"):
        more = line.recv(1 << 16)
        if not more:
            raise ConnectionResetError("the other side is gone")
        received += more
    return received
