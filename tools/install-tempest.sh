#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install OpenStack's Tempest, and the tests that Cinder adds to it, for the tests into .tempest, a separate environment,
# because its requirements must not conflict with Tonnage's. An up-to-date environment stays unchanged.
# This script never fails: tests without Tempest report it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.tempest
# Tests of a later release may need features that tests/tempest/left_out.txt does not name yet.
packages=('tempest==47.0.0' 'cinder-tempest-plugin==1.23.0')

[[ -f $venv/complete && $(<"$venv/complete") == "$PWD ${packages[*]}" ]] && exit 0
echo "==> Installing for the tests: ${packages[*]}"
rm -rf "$venv"
if python3 -m venv "$venv" && "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
    --progress-bar=off --root-user-action=ignore "${packages[@]}" >"$venv/install.log" 2>&1; then
    echo "$PWD ${packages[*]}" >"$venv/complete"
else
    tail -n 5 "$venv/install.log" >&2 || true
    rm -rf "$venv"
    echo "==> Could not install ${packages[*]}. Tests that need it are skipped."
fi
