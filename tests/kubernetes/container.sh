#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run a program as a container runtime does, with a user and a read-only root file system:
#
#     unshare --mount container.sh USER GROUP ROOT [SOURCE TARGET]... -- PROGRAM [ARGUMENT]...
#
# ROOT is an empty folder, which becomes the root file system; each file or folder SOURCE is mounted there as TARGET.
set -euo pipefail
user=$1 group=$2 root=$3
shift 3
mount -t tmpfs -o mode=755 container "$root"
while [[ $1 != -- ]]; do
    source=$1 target=$root$2
    shift 2
    mkdir -p "${target%/*}"
    if [[ -L $source ]]; then
        cp --no-dereference "$source" "$target" # /bin on a merged system
        continue
    fi
    if [[ -d $source ]]; then mkdir -p "$target"; else touch "$target"; fi
    mount --rbind "$source" "$target"
done
shift
mount -o remount,ro "$root"
exec chroot --userspec="$user:$group" --groups="$group" "$root" "$@"
