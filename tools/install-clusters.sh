#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install the packages of the distribution that only the tests on clusters of servers need, if this account may.
# This script never fails: tests without their servers report it.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { PATH=$PATH:/usr/sbin command -v "$1" >/dev/null; }

packages=()
compgen -G '/usr/lib/galera/libgalera_smm.so' >/dev/null || packages+=(galera-4)
have rsync || packages+=(rsync)
have lsof || packages+=(lsof) # the state transfer with rsync uses it
have haproxy || packages+=(haproxy)
have etcd || packages+=(etcd-server)
have ip || packages+=(iproute2)
((${#packages[@]})) || exit 0

if ((EUID == 0)); then
    as_root=(env)
elif have sudo && sudo --non-interactive true 2>/dev/null; then
    as_root=(sudo --non-interactive env)
else
    echo "==> Missing, and this account may not install them: ${packages[*]}. Tests that need them are skipped."
    exit 0
fi

# Tests start their own servers, so the services that the packages start are stopped.
stop_services() {
    [[ -d /run/systemd/system ]] && have systemctl || return 0
    for unit in haproxy.service rsync.service etcd-server.service; do
        [[ " ${packages[*]} " == *" ${unit%.service} "* ]] || continue
        "${as_root[@]}" systemctl disable --now --quiet "$unit" >/dev/null 2>&1 || true
    done
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y)
echo "==> Installing for the tests on clusters: ${packages[*]}"
if ! "${apt[@]}" install --no-install-recommends "${packages[@]}" >"$log" 2>&1; then
    echo "    loading the package lists first"
    "${apt[@]}" update >>"$log" 2>&1 || true
    if ! "${apt[@]}" install --no-install-recommends "${packages[@]}" >>"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "==> Could not install ${packages[*]}. Tests that need them are skipped."
    fi
fi
stop_services
