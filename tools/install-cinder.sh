#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install OpenStack's Cinder for the tests into .cinder, a separate environment, because its requirements must not
# conflict with Tonnage's. An up-to-date environment stays unchanged.
# This script never fails: tests without Cinder report it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.cinder
packages=('cinder==29.0.0' 'PyMySQL>=1.1')

[[ -f $venv/complete && $(<"$venv/complete") == "$PWD ${packages[*]}" ]] && exit 0
echo "==> Installing for the tests: ${packages[*]}"
rm -rf "$venv"
if python3 -m venv "$venv" && "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
    --progress-bar=off --root-user-action=ignore "${packages[@]}" >"$venv/install.log" 2>&1; then
    echo "$PWD ${packages[*]}" >"$venv/complete"
else
    tail -n 5 "$venv/install.log" >&2 || true
    rm -rf "$venv"
    echo "==> Could not install ${packages[*]}. Tests that need them cannot run."
fi
