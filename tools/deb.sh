#!/bin/sh
# Makes a Debian package of a tree that `make install` filled, and prints its name. Which packages it needs is read from the program's libraries.
#
#   tools/deb.sh TREE FOLDER
set -eu

tree=$1 folder=$2
program=$tree/usr/bin/sluice
version=$("$program" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)

packages=
for path in $(ldd "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'); do
    # dpkg knows one of the two names that a file has where /lib is a link to /usr/lib.
    owner=$(dpkg -S "$(realpath "$path")" 2>/dev/null || dpkg -S "$path" 2>/dev/null || true)
    [ -n "$owner" ] || { echo "deb.sh: no package holds $path" >&2; exit 3; }
    name=${owner%%:*}
    least=$(dpkg-query -W -f '${Version}' "$name" | sed 's/[-+~].*//; s/^[0-9]*://')
    packages="$packages
$name (>= $least)"
done
depends=$(echo "$packages" | sort -u | sed '/^$/d' | paste -sd, | sed 's/,/, /g')

mkdir -p "$tree/DEBIAN"
gzip -9nf "$tree/usr/share/man/man1/sluice.1"
cat >"$tree/DEBIAN/control" <<END
Package: sluice
Version: $version
Architecture: $arch
Maintainer: The sluice developers <sluice@localhost>
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Depends: $depends
Recommends: libcurl4, libssl3, ca-certificates
Section: science
Priority: optional
Description: offline batch inference of language models larger than memory
 sluice answers files of prompts with large language models whose weights are
 streamed from disk once a pass for all rows of a large batch. Jobs go on where
 they were after any interruption, with the same bits.
END
out=$folder/sluice_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$tree" "$out" >/dev/null
echo "$out"
