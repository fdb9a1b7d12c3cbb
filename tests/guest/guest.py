"""A Linux guest under QEMU, driven from the host: start it, run commands in it, end it on every path.

    with Guest(directory, image_directory, socket_path) as guest:
        guest.run("modprobe virtio_blk")
        print(guest.run("sha256sum /dev/vda", timeout_s=120))

Commands go over a serial port to the agent in ./init; the kernel's console goes to a file of its own, which a failing
test prints. QEMU emulates the processor (no KVM is needed), so every wait has a generous deadline and no step is timed.
"""

import os
import re
import socket
import subprocess
import time

from qmp import Monitor, MonitorError

# Words of a kernel that is in trouble; the console of a passing test holds none of them.
KERNEL_TROUBLE = re.compile(
    r"Kernel panic|BUG:|Oops|Call Trace|I/O error|EXT4-fs error|blocked for more than|rcu.*stall|JBD2: Error")

BOOT_DEADLINE_S = 120
NUDGE_S = 10


class GuestError(Exception):
    """What went wrong in or with the guest, with what is needed to understand it."""


class Guest:
    """One QEMU process. Use as a context manager; leaving it ends QEMU.

    directory:  where the console and the agent's socket are put
    image:      a directory with kernel and initramfs (build-image.sh)
    disk:       socket of the vhost-user-blk server
    disk_options: more of QEMU's options of the disk device
    memory_max_mb: what memory can grow to while it runs, see plug_memory(); None: it stays as it is
    reconnects: QEMU waits for a server that has gone, and gives the next one the in-flight region
    incoming:   path of a socket on which the guest comes by migration: it is not waited for
    reboots:    a guest that reboots comes up again, see reboot(); else that ends it

    The device's id in QEMU is "vblk". QEMU's monitor is `monitor`, see qmp.py.
    """

    def __init__(self, directory, image, disk, queues=2, memory_mb=512, processors=2, disk_options="",
                 memory_max_mb=None, reboots=False, reconnects=False, incoming=None):
        self.monitor = None
        self._comes_by_migration = incoming is not None
        self._monitor_path = os.path.join(directory, "qmp.sock")
        self.console_path = os.path.join(directory, "console.log")
        self._token = 0
        self._buffer = b""
        self._agent = None
        self._qemu = None
        self._memory_mb = memory_mb
        self._listener_path = os.path.join(directory, "agent.sock")
        self._qemu_log_path = os.path.join(directory, "qemu.log")
        self._command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max",
            "-machine", "q35,memory-backend=mem", "-smp", str(processors), 
            "-m", f"{memory_mb},slots=4,maxmem={memory_max_mb}M" if memory_max_mb else str(memory_mb),
            # A vhost-user server maps the guest's memory: it must be shared.
            "-object", f"memory-backend-memfd,id=mem,size={memory_mb}M,share=on",
            "-nodefaults", "-display", "none", *([] if reboots else ["-no-reboot"]),
            "-qmp", f"unix:{self._monitor_path},server=on,wait=off",
            "-kernel", os.path.join(image, "kernel"), "-initrd", os.path.join(image, "initramfs"),
            "-append", "console=ttyS0 quiet loglevel=5 panic=-1 mitigations=off",
            "-serial", f"file:{self.console_path}",
            "-chardev", f"socket,id=agent,path={self._listener_path}", "-serial", "chardev:agent",
            "-chardev", f"socket,id=disk,path={disk}" + (",reconnect=1" if reconnects else ""),
            "-device", f"vhost-user-blk-pci,id=vblk,chardev=disk,num-queues={queues}" + (disk_options and f",{disk_options}"),
            *(["-incoming", f"unix:{incoming}"] if incoming else []),
        ]

    def __enter__(self):
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(self._listener_path)
            listener.listen(1)
            listener.settimeout(30)
            with open(self._qemu_log_path, "wb") as log:
                self._qemu = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                self._agent, _ = listener.accept()
            except socket.timeout:
                raise GuestError(f"QEMU did not start: {self.qemu_log()}") from None
            if not self._comes_by_migration:
                self._read_until(b"agent ready\n", BOOT_DEADLINE_S, "the guest did not boot")
            self.monitor = Monitor(self._monitor_path)
        except BaseException:
            self._end()
            raise
        finally:
            listener.close()
            os.unlink(self._listener_path)
        return self

    def __exit__(self, kind, value, trace):
        self._end()

    def _end(self):
        if self._agent:
            self._agent.close()
        if self.monitor:
            self.monitor.close()
        if self._qemu and self._qemu.poll() is None:
            self._qemu.kill()
            self._qemu.wait()

    def qemu_log(self):
        with open(self._qemu_log_path, errors="replace") as log:
            return log.read()

    def console(self):
        if not os.path.exists(self.console_path):
            return ""
        with open(self.console_path, errors="replace") as console:
            return console.read()

    def _read_until(self, end, timeout_s, what):
        """Everything from the agent up to and including the bytes @end."""
        deadline = time.monotonic() + timeout_s
        while end not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                said = self._buffer.decode(errors="replace")
                raise GuestError(f"{what} within {timeout_s} s; so far it said {said!r}; {self._state()}")
            self._agent.settimeout(min(left, NUDGE_S))
            try:
                data = self._agent.recv(65536)
            except socket.timeout:
                # Should an interrupt of the emulated port have been lost, the next character brings another one.
                if self.monitor:
                    self._agent.sendall(b"\n")
                continue
            except ConnectionError:
                data = b""
            if not data:
                raise GuestError(f"{what}: QEMU ended; {self.qemu_log()}")
            self._buffer += data
        answer, self._buffer = self._buffer.split(end, 1)
        return answer + end

    def _state(self):
        """Who hangs: QEMU's main loop, its processors, or something inside the guest."""
        try:
            return f"QEMU says: {self.monitor.run('query-status')['status']}" if self.monitor else "QEMU has no monitor yet"
        except (MonitorError, OSError) as error:
            return f"QEMU's main loop does not answer: {error}"

    def run(self, command, timeout_s=60):
        """Run one shell command line in the guest and return its output; a status other than 0 is a GuestError."""
        if "\n" in command:
            raise ValueError("the agent takes one line")
        self._token += 1
        token = f"t{self._token}"
        self._agent.settimeout(timeout_s)
        self._agent.sendall(f"RUN {token} {command}\n".encode())
        mark = f"{token}=".encode()
        text = self._read_until(mark, timeout_s, f"`{command}` did not end")[:-len(mark)].decode(errors="replace")
        status = int(self._read_until(b"\n", timeout_s, f"`{command}` gave no status"))
        output = "\n".join(line.rstrip("\r").partition("|")[2] for line in text.splitlines())
        if status != 0:
            raise GuestError(f"`{command}` ended with {status} in the guest:\n{output}")
        return output

    def check_console(self):
        """A GuestError if the kernel complained about anything."""
        lines = [line for line in self.console().splitlines() if KERNEL_TROUBLE.search(line)]
        if lines:
            raise GuestError("the guest's kernel complained:\n" + "\n".join(lines[:20]))

    def reboot(self):
        """The guest resets the machine, which comes up again with nothing in its memory; the agent is there then."""
        self._agent.settimeout(BOOT_DEADLINE_S)
        self._agent.sendall(b"RUN again reboot -f\n")
        self._read_until(b"agent ready\n", BOOT_DEADLINE_S, "the guest did not come up again")

    def power_off(self, timeout_s=60):
        """End the guest in an orderly way, so that the device sees its driver leave."""
        self._agent.settimeout(timeout_s)
        self._agent.sendall(b"RUN off poweroff -f\n")
        try:
            status = self._qemu.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise GuestError(f"the guest did not power off within {timeout_s} s") from None
        if status != 0:
            raise GuestError(f"QEMU ended with status {status}: {self.qemu_log()}")


def load_driver(guest):
    guest.run("modprobe virtio_pci && modprobe virtio_blk")
    guest.run("i=0; while [ ! -b /dev/vda ]; do i=$((i + 1)); [ $i -lt 200 ] || exit 1; usleep 50000; done")
