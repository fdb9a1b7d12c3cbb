#!/bin/sh
# Builds the Linux guest of the suite `guest`: a kernel and an initramfs, made from this machine's own packages.
#
# Usage: build-image.sh DIRECTORY
#   Leaves DIRECTORY/kernel and DIRECTORY/initramfs, and does nothing when they are there and no older than this
#   script and init. The kernel is Debian's newest cloud kernel, downloaded (27 MB) but not installed; the programs are
#   busybox-static, mke2fs, e2fsck, mkfs.xfs, blkdiscard and fio with the libraries that ldd names.
#   exit 0 done, 1 failed, 77 a tool is missing
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"; exit 2; }

# What the guest's kernel needs beyond what is built in; modules.dep adds what these need.
modules="virtio_pci virtio_blk ext4 xfs crc32c_generic crc32c_intel libcrc32c"
programs="mke2fs e2fsck mkfs.xfs blkdiscard fio"   # put in /usr/sbin: call them by path, busybox prefers its own

for tool in apt-get apt-cache dpkg-deb ldd cpio busybox $programs; do
    PATH=$PATH:/sbin:/usr/sbin command -v "$tool" >/dev/null ||
        { echo "build-image.sh: $tool is not installed (tests/packages lists what the tests need)"; exit 77; }
done

mkdir -p "$1"
cd "$1"
image=$PWD
# Tests start at the same time: one builds, the others wait for it.
exec 9>lock
flock 9
if [ -f initramfs ] && [ -f kernel ] && [ -z "$(find "$here/build-image.sh" "$here/init" -newer initramfs)" ]; then
    exit 0
fi

work=$(mktemp -d "$image/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

package=$(apt-cache depends "linux-image-cloud-$(dpkg --print-architecture)" 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
[ -n "$package" ] ||
    { echo "build-image.sh: no linux-image-cloud package known to apt (try: apt-get update)"; exit 1; }
if [ ! -f "$package.deb" ]; then
    echo "build-image.sh: downloading $package"
    # apt's unprivileged user cannot write here when we are root; as root no sandbox is needed for a signed package.
    (cd "$work" && apt-get -q -o APT::Sandbox::User=root download "$package" >apt.log 2>&1 || { cat apt.log; exit 1; })
    mv "$work/$package"_*.deb "$package.deb"
fi

dpkg-deb -x "$package.deb" "$work/kernel"
version=$(ls "$work/kernel/lib/modules")
busybox depmod -b "$work/kernel" "$version"

root=$work/root
library=lib/modules/$version
mkdir -p "$root/bin" "$root/usr/sbin" "$root/$library" "$root/proc" "$root/sys" "$root/dev" "$root/mnt" "$root/tmp" "$root/etc"
cp "$(command -v busybox)" "$root/bin/busybox"
for name in $(busybox --list); do
    case $name in busybox) continue ;; esac
    ln -s busybox "$root/bin/$name"
done
ln -s bin "$root/sbin"

# modules.dep: "file: what it needs", with the dependencies complete, not only the nearest.
for module in $modules; do
    sed -n "s,^\([^:]*/$module\.ko[^:]*\):\(.*\),\1\2,p" "$work/kernel/$library/modules.dep"
done | tr ' ' '\n' | sort -u >"$work/modules"
while read -r file; do
    [ -n "$file" ] || continue
    mkdir -p "$root/$library/$(dirname "$file")"
    cp "$work/kernel/$library/$file" "$root/$library/$file"
done <"$work/modules"
cp "$work/kernel/$library"/modules.builtin* "$work/kernel/$library/modules.order" "$root/$library/"
busybox depmod -b "$root" "$version"

for program in $programs; do
    path=$(PATH=$PATH:/sbin:/usr/sbin command -v "$program")
    cp -L "$path" "$root/usr/sbin/$program"
    ldd "$path" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p'
done | sort -u | while read -r file; do
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
done

cp "$here/init" "$root/init"
chmod 755 "$root/init"
# Not compressed: an emulated processor takes longer to unpack than QEMU to load it.
(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initramfs"
cp "$work/kernel/boot/vmlinuz-$version" kernel
mv "$work/initramfs" initramfs
echo "build-image.sh: Linux $version, initramfs $(($(stat -c %s initramfs) / 1048576)) MiB"
