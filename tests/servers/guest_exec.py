# SPDX-License-Identifier: Apache-2.0
"""A program that runs a command in the virtual machine: ``guest_exec.py SOCKET COMMAND [ARGUMENT ...]``."""

import base64
import shlex
import socket
import sys


def main() -> int:
    """Send the command, print its output, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(sys.argv[1])
        line.sendall(base64.b64encode(shlex.join(sys.argv[2:]).encode()) + b"\n")
        with line.makefile("rb") as answer:
            code, out, err = answer.readline().rstrip(b"\n").split(b" ")
    sys.stdout.buffer.write(base64.b64decode(out))
    sys.stderr.buffer.write(base64.b64decode(err))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
