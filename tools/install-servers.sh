#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install missing servers for the tests from the distribution, if this account may and INSTALL is not "no".
# The packages of the tests' virtual machine (a kernel, busybox and sudo) are only unpacked, into .lvm-guest.
# Arguments are more programs that tests need, whose packages have the same names.
# This script never fails: tests without their server report it.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { PATH=$PATH:/usr/sbin command -v "$1" >/dev/null; }

packages=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || have initdb || packages+=(postgresql)
have mariadbd && have mariadb-install-db || packages+=(mariadb-server)
[[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] || packages+=(rabbitmq-server)
have mkfs.xfs || packages+=(xfsprogs)
have mkfs.btrfs || packages+=(btrfs-progs)
have qemu-img || packages+=(qemu-utils)
have qemu-system-x86_64 || packages+=(qemu-system-x86)
have lvs || packages+=(lvm2)
have chromium || have chromium-browser || have google-chrome || packages+=(chromium)
have promtool || packages+=(prometheus)
have curl || packages+=(curl)
have jq || packages+=(jq)
have openssl || packages+=(openssl)
have haproxy || packages+=(haproxy)
have zsh || packages+=(zsh)
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || packages+=(libfaketime)
have thin_check || packages+=(thin-provisioning-tools)
for program in "$@"; do
    have "$program" || packages+=("$program")
done
guest=.lvm-guest
unpack=()
if have apt-get && have dpkg && [[ ! -e $guest/complete && $(dpkg --print-architecture) == amd64 ]]; then
    unpack=(linux-image-cloud-amd64 busybox-static sudo)
fi
if [[ ${INSTALL:-yes} == no ]]; then
    as_root=()
elif ((EUID == 0)); then
    as_root=(env)
elif have sudo && sudo --non-interactive true 2>/dev/null; then
    as_root=(sudo --non-interactive env)
else
    as_root=()
fi
if ((${#packages[@]})) && { ((${#as_root[@]} == 0)) || ! have apt-get; }; then
    echo "==> Missing, and not to be installed here: ${packages[*]}. Tests that need them are skipped."
    packages=()
fi
if ((${#packages[@]})); then
    echo "==> The tests need packages of the distribution, which are installed as root: ${packages[*]}"
    echo "    'make test INSTALL=no' leaves the system as it is, and skips the tests that need them"
    if [[ -t 1 ]]; then
        echo "    Ctrl-C in the next 5 seconds stops this"
        sleep 5
    fi
fi
tools/install-openstack.sh
((${#packages[@]} + ${#unpack[@]})) || exit 0

# The distribution would start installed services. Tests start their own servers, so these services stay off.
units=(
    postgresql.service postgresql@.service mariadb.service rabbitmq-server.service epmd.socket epmd.service
    prometheus.service prometheus-node-exporter.service haproxy.service
    lvm2-monitor.service lvm2-lvmpolld.socket blk-availability.service dm-event.socket
)
known=()
with_systemd() { [[ -d /run/systemd/system ]] && have systemctl; }
if with_systemd; then
    for unit in "${units[@]}"; do # services that exist already keep running
        if systemctl cat "$unit" >/dev/null 2>&1; then known+=("$unit"); fi
    done
    for unit in "${known[@]}"; do units=("${units[@]/#$unit/}"); done
    # shellcheck disable=SC2206  # word splitting removes the empty words
    units=(${units[@]})
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y)
with_progress() { # run a command with its output in the log, and print progress lines
    "$@" 2>&1 | tee -a "$log" | awk '
        / MB of archives| kB of archives/ { print "    " $0 }
        /^Get:/ { if (++got % 25 == 0) print "    " got " files loaded" }
        /^Setting up / { if (++done % 25 == 0) print "    " done " packages set up" }
        { fflush() }
    '
}

install_packages() {
    local install=("${apt[@]}" install --no-install-recommends "${packages[@]}")
    echo "==> Installing the packages of the distribution"
    if with_systemd && ((${#units[@]})); then
        "${as_root[@]}" systemctl mask --runtime --quiet "${units[@]}" >>"$log" 2>&1 || true
    fi
    if ! with_progress "${install[@]}"; then
        echo "    loading the package lists first"
        "${apt[@]}" update >>"$log" 2>&1 || true
        if ! with_progress "${install[@]}"; then
            tail -n 5 "$log" >&2
            echo "==> Could not install ${packages[*]}. Tests that need them are skipped."
        fi
    fi
    if with_systemd && ((${#units[@]})); then
        "${as_root[@]}" systemctl unmask --runtime --quiet "${units[@]}" >>"$log" 2>&1 || true
        for unit in postgresql.service mariadb.service rabbitmq-server.service epmd.socket \
            lvm2-monitor.service lvm2-lvmpolld.socket blk-availability.service dm-event.socket haproxy.service; do
            if [[ " ${units[*]} " == *" $unit "* ]]; then
                "${as_root[@]}" systemctl disable --quiet "$unit" >>"$log" 2>&1 || true
            fi
        done
    fi
}

# Download the kernel's own package, because the metapackage for the newest kernel is empty.
load_packages() {
    local kernel
    kernel=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: //p')
    [[ -n $kernel ]] && (cd "$1" && apt-get -q download "$kernel" "${unpack[@]:1}" >>"$log" 2>&1)
}

unpack_packages() {
    local folder
    folder=$(mktemp -d)
    echo "==> Unpacking for the tests' virtual machine: ${unpack[*]}"
    if ! load_packages "$folder" && ((${#as_root[@]})); then
        echo "    loading the package lists first"
        "${apt[@]}" update >>"$log" 2>&1 || true
        load_packages "$folder" || true
    fi
    rm -rf "$guest"
    mkdir "$guest"
    for package in "$folder"/*.deb; do
        [[ -e $package ]] && dpkg --extract "$package" "$guest" || break
    done
    if compgen -G "$guest/boot/vmlinuz-*" >/dev/null && [[ -e $guest/bin/busybox && -e $guest/usr/bin/sudo ]]; then
        touch "$guest/complete"
    else
        tail -n 5 "$log" >&2
        echo "==> Could not unpack ${unpack[*]}. Tests of LVM in a virtual machine are skipped."
    fi
    rm -rf "$folder"
}

if ((${#packages[@]})); then install_packages; fi
if ((${#unpack[@]})); then unpack_packages; fi
