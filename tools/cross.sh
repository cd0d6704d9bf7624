#!/bin/sh
# What `make cross` needs: the aarch64 compiler and the emulator as packages of this machine, and the libraries of that machine unpacked below a
# folder, whose system this one is not touched by: apt gets lists and a cache of its own there.
#
#   tools/cross.sh FOLDER          (FOLDER/usr/lib/aarch64-linux-gnu has the libraries, FOLDER/usr/include the headers)
set -eu

libraries="libcmocka0 libcmocka-dev libpcre2-8-0 libpcre2-dev"

mkdir -p "$1"
root=$(cd "$1" && pwd)
if [ -f "$root/ready" ]; then
    echo "cross.sh: all libraries are there"
    exit 0
fi
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
touch "$root/ready"
echo "cross.sh: unpacked $libraries"
