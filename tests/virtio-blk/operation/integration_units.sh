#!/bin/sh
# Goal: systemd accepts the units as they are installed. Method: `systemd-analyze verify` on an instance of each, with the program's
# path replaced by the built one. If it fails: `systemctl enable vblkd@disk0.socket` does not work, or a setting is ignored.
#
# Usage: integration_units.sh vblkd@.service vblkd@.socket    (VBLKD names the program)
set -eu
command -v systemd-analyze >/dev/null || { echo "needs systemd-analyze"; exit 77; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
sed "s|^ExecStart=[^ ]*|ExecStart=$VBLKD|" "$1" >"$directory/vblkd@disk0.service"
grep -q "^ExecStart=$VBLKD " "$directory/vblkd@disk0.service"
cp "$2" "$directory/vblkd@disk0.socket"
said=$(systemd-analyze verify --man=no "$directory/vblkd@disk0.service" "$directory/vblkd@disk0.socket" 2>&1) || {
    echo "$said"
    exit 1
}
# A setting that it does not know is only a warning there.
[ -z "$said" ] || { echo "$said"; exit 1; }
