#!/bin/sh
# Installs the Debian packages that sluice needs, and says which. Nothing to do: says so and needs no root.
#
#   tools/deps.sh [build | check | deep | cross]     (each one includes those before it; default: build)
set -eu

build="gcc make libc6-dev libpcre2-dev liburing-dev libsqlite3-dev libcurl4-openssl-dev libssl-dev python3 python3-pip unzip ca-certificates"
check="clang libcmocka-dev"
deep="libclang-rt-14-dev valgrind chromium"
cross="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

case "${1:-build}" in
build) wanted="$build" ;;
check) wanted="$build $check" ;;
deep) wanted="$build $check $deep" ;;
cross) wanted="$build $check $deep $cross" ;;
*) echo "deps.sh: unknown set '$1': build, check, deep or cross" >&2; exit 2 ;;
esac

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "deps.sh: all packages are there"
    exit 0
fi
echo "deps.sh: installing$missing"
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps.sh: not root and no sudo: install$missing by hand" >&2; exit 3; }
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "deps.sh: installed$missing"
