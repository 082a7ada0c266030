#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install the servers that tests start, from the distribution, where that is allowed and they are missing.
# Never fails: tests that need a server that is not there say so themselves.
set -euo pipefail

have() { PATH=$PATH:/usr/sbin command -v "$1" >/dev/null; }

packages=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || have initdb || packages+=(postgresql)
have mariadbd && have mariadb-install-db || packages+=(mariadb-server)
[[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] || packages+=(rabbitmq-server)
have mkfs.xfs || packages+=(xfsprogs)
have mkfs.btrfs || packages+=(btrfs-progs)
((${#packages[@]})) || exit 0

if ((EUID == 0)); then
    as_root=(env)
elif have sudo && sudo --non-interactive true 2>/dev/null; then
    as_root=(sudo --non-interactive env)
else
    as_root=()
fi
if ((${#as_root[@]} == 0)) || ! have apt-get; then
    echo "==> Not installed, and not mine to install: ${packages[*]}. Tests that need them are left out."
    exit 0
fi

# The distribution would start what it installs. Tests start their own, so its services stay off.
units=(postgresql.service postgresql@.service mariadb.service rabbitmq-server.service epmd.socket epmd.service)
known=()
with_systemd() { [[ -d /run/systemd/system ]] && have systemctl; }
if with_systemd; then
    for unit in "${units[@]}"; do # what an administrator has set up keeps running
        if systemctl cat "$unit" >/dev/null 2>&1; then known+=("$unit"); fi
    done
    for unit in "${known[@]}"; do units=("${units[@]/#$unit/}"); done
    # shellcheck disable=SC2206  # drops the empty words
    units=(${units[@]})
fi

echo "==> Installing for the tests: ${packages[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y)
install=("${apt[@]}" install --no-install-recommends "${packages[@]}")
if with_systemd && ((${#units[@]})); then
    "${as_root[@]}" systemctl mask --runtime --quiet "${units[@]}" >>"$log" 2>&1 || true
fi
watched() { # run a command, all its output in the log, a line now and then here
    "$@" 2>&1 | tee -a "$log" | awk '
        / MB of archives| kB of archives/ { print "    " $0 }
        /^Get:/ { if (++got % 25 == 0) print "    " got " files loaded" }
        /^Setting up / { if (++done % 25 == 0) print "    " done " packages set up" }
        { fflush() }
    '
}
if ! watched "${install[@]}"; then
    echo "    loading the package lists first"
    "${apt[@]}" update >>"$log" 2>&1 || true
    if ! watched "${install[@]}"; then
        tail -n 5 "$log" >&2
        echo "==> Could not install ${packages[*]}. Tests that need them are left out."
    fi
fi
if with_systemd && ((${#units[@]})); then
    "${as_root[@]}" systemctl unmask --runtime --quiet "${units[@]}" >>"$log" 2>&1 || true
    for unit in postgresql.service mariadb.service rabbitmq-server.service epmd.socket; do
        if [[ " ${units[*]} " == *" $unit "* ]]; then
            "${as_root[@]}" systemctl disable --quiet "$unit" >>"$log" 2>&1 || true
        fi
    done
fi
