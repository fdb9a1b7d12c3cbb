#!/usr/bin/env python3
"""Loads a vhost-user-blk device from a Linux guest: makes a file system, writes and checks files, unloads the driver.

Usage: guest_load.py --socket-path=PATH --image=DIRECTORY --log=DIRECTORY [--queues=N]
  --image   the guest's kernel and initramfs (build-image.sh makes them)
  --log     where the guest's console is left
  --queues  how many the guest asks for (default 2)

Exit status: 0 the files were right, 1 failed, 2 usage.
"""

import argparse
import sys
import time

from guest import Guest, GuestError, load_driver

# Time without a driver, in which the device has nothing to do: long enough for a 1 Hz sample or two.
IDLE_S = 3


def load(guest):
    load_driver(guest)
    guest.run("modprobe ext4 && /usr/sbin/mke2fs -q -t ext4 /dev/vda && mount -t ext4 /dev/vda /mnt", 120)
    guest.run("head -c 20000000 /dev/urandom | tee /mnt/file | sha256sum | sed 's,-,/mnt/file,' >/tmp/sums", 120)
    guest.run("umount /mnt && mount -t ext4 /dev/vda /mnt && sha256sum -c /tmp/sums && umount /mnt", 120)
    guest.run("rmmod virtio_blk")
    time.sleep(IDLE_S)
    guest.check_console()
    guest.power_off()


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ")[1])
    parser.add_argument("--socket-path", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--queues", type=int, default=2)
    options = parser.parse_args()

    try:
        with Guest(options.log, options.image, options.socket_path, queues=options.queues) as guest:
            load(guest)
    except GuestError as error:
        print(f"guest_load.py: {error}", file=sys.stderr)
        return 1
    print("guest_load.py: a file system made, 20 MB written, read back and right, driver unloaded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
