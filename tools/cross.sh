#!/bin/sh
# Brings what `make cross` needs on a Debian x86-64: the aarch64 compiler and the emulator as packages, and the libraries of that machine unpacked
# below a folder. apt gets lists and a cache of its own for them, so the system learns of no other architecture. Exit 1: they cannot be had.
#
#   tools/cross.sh FOLDER          (FOLDER/usr/include, FOLDER/usr/lib/aarch64-linux-gnu)
set -eu

libraries="libcmocka0 libcmocka-dev libpcre2-8-0 libpcre2-dev libsqlite3-0 libsqlite3-dev liburing2 liburing-dev
    libcurl4-openssl-dev libssl-dev libssl3"

if [ "$(uname -m)" = aarch64 ]; then
    echo "cross.sh: this machine is an aarch64 itself: make check tests its instruction set" >&2
    exit 1
fi
"$(dirname "$0")/deps.sh" cross
mkdir -p "$1"
root=$(cd "$1" && pwd)
if [ -f "$root/ready" ] && [ "$(cat "$root/ready")" = "$libraries" ]; then
    echo "cross.sh: all libraries are there"
    exit 0
fi
rm -rf "$root/apt"
mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial"
cd "$root/apt"
set -- -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$root/apt/lists" -o Dir::State::status=/dev/null \
    -o Dir::Cache="$root/apt" -o APT::Sandbox::User="$(id -un)"
apt-get "$@" update
# shellcheck disable=SC2086
apt-get "$@" download $libraries
for package in *.deb; do
    dpkg-deb -x "$package" "$root"
done
rm -r "$root/apt"
echo "$libraries" >"$root/ready"
echo "cross.sh: unpacked $libraries"
