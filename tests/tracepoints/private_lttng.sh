# Sourced by a test's first lines, with "$0" "$@" unchanged. Runs the test again in namespaces of its own, in which no
# session daemon runs: so the test can start one, and nothing that it does is seen outside. Everything that it leaves
# running is killed with the namespace. $work is its temporary folder.
#
# Provides: fail TEXT, wait_for COMMAND... (until it succeeds, at most 60 s), step TEXT.

# In a chroot the root is no mount point, so that unshare cannot make it private. It need not if mounts do not spread
# anyway: seen by mounting something harmless in a namespace and looking for it outside.
mounts_stay_inside() {
    probe=$(mktemp -d)
    unshare --mount --propagation unchanged mount -t tmpfs private-lttng-probe "$probe" 2>/dev/null &&
        ! grep -q "^private-lttng-probe $probe " /proc/mounts
    inside=$?
    umount "$probe" 2>/dev/null
    rmdir "$probe"
    return $inside
}

if [ "${PRIVATE_LTTNG-}" != yes ]; then
    for how in "" "--map-root-user" "--propagation unchanged"; do
        [ "$how" != "--propagation unchanged" ] || mounts_stay_inside || continue
        # shellcheck disable=SC2086
        if unshare $how --mount --pid --fork --mount-proc mount -t tmpfs tmpfs /run 2>/dev/null; then
            PRIVATE_LTTNG=yes exec unshare $how --mount --pid --fork --kill-child --mount-proc sh "$0" "$@"
        fi
    done
    echo "skipped: no right to make namespaces (a session daemon of the test's own needs them)"
    exit 77
fi
for tool in lttng lttng-sessiond babeltrace2; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done

work=$(mktemp -d)
remove_work() {
    awk -v under="$work/" 'index($2, under) == 1 { print $2 }' /proc/mounts | while read -r mounted; do
        umount "$mounted"
    done
    rm -rf "$work"
}
trap remove_work EXIT
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir -p /run/lttng
export LTTNG_HOME="$work" TMPDIR="$work"
unset LTTNG_SESSIOND_PATH VBLKSCOPE_TRACEPOINTS

step() {
    echo "-- $*"
}

fail() {
    echo "FAILED: $*"
    exit 1
}

wait_for() {
    tries=0
    until "$@" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 3000 ] || fail "in 60 s this did not come true: $*"
        sleep 0.02
    done
}
