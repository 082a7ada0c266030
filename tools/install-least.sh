#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Create .least in the checkout, an environment with Tonnage (editable), all its extras and its tests. Of each library that
# setup.cfg names it has the least version. pip has no such choice, so uv makes it.
# An up-to-date environment stays unchanged. PYTHON selects the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.least log=.least/install.log
stamp="$PWD $(cat setup.cfg pyproject.toml tools/install-least.sh | cksum)"
[[ -f $venv/complete && $(<"$venv/complete") == "$stamp" ]] && exit 0

uv() { "$venv/bin/uv" pip "$@" --python "$venv/bin/python" --quiet; }

# The tests have newer libraries of their own, and setuptools comes with the environment. The compiler of messages that
# knows protobuf's least version requires a later grpcio.
install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet uv &&
        uv install --resolution lowest-direct --requirements setup.cfg --all-extras &&
        uv freeze | grep -v '^setuptools=' >"$venv/least.txt" &&
        uv install --no-deps --editable . &&
        echo "grpcio-tools; sys_platform == 'none'" >"$venv/overrides.txt" &&
        uv install --group test --constraint "$venv/least.txt" --override "$venv/overrides.txt"
}

echo "==> Installing the least versions of all libraries into $venv"
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
if ! install >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "tonnage: the least versions could not be installed; the output is in $log" >&2
    exit 1
fi
echo "$stamp" >"$venv/complete"
