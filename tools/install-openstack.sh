#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install services of OpenStack for the tests into an environment of their own, because their requirements must not
# conflict with Tonnage's: Placement and Keystone into .openstack, with the argument "cinder" Cinder and Glance into .cinder, together with Tonnage.
# An up-to-date environment stays unchanged. This script never fails: tests without their service report it.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in
'') venv=.openstack packages=('openstack-placement>=13.0' 'keystone>=27.0') ;;
cinder) venv=.cinder packages=('cinder==29.0.0' 'glance>=32.0' 'waitress>=3.0' 'PyMySQL>=1.1' 'psycopg2-binary>=2.9' 'ddt>=1.7' 'oslotest>=5.0' --editable .) ;;
*)
    echo "usage: $0 [cinder]" >&2
    exit 2
    ;;
esac

[[ -f $venv/complete && $(<"$venv/complete") == "$PWD ${packages[*]}" ]] && exit 0
echo "==> Installing for the tests: ${packages[*]}"
rm -rf "$venv"
if python3 -m venv "$venv" && "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
    --progress-bar=off --root-user-action=ignore "${packages[@]}" >"$venv/install.log" 2>&1; then
    echo "$PWD ${packages[*]}" >"$venv/complete"
else
    tail -n 5 "$venv/install.log" >&2 || true
    rm -rf "$venv"
    echo "==> Could not install ${packages[*]}. Tests that need them are skipped."
fi
