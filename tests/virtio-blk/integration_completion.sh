#!/bin/bash
# Goal: what bash offers for options and values of vblkd and vblk-load is what the programs take.
# Method: the completion is asked as bash asks it, word by word; every value that it offers is tried.
# If it fails: a change of --help's wording took a value away from whoever presses Tab, or offers one that is refused.
# usage: integration_completion.sh COMPLETION...   (the programs: $VBLKD, $VBLK_LOAD)
set -eu
PATH=$(dirname "$VBLKD"):$(dirname "$VBLK_LOAD"):$PATH
for completion; do
    # shellcheck source=/dev/null
    . "$completion"
done
program=vblkd

# Words as bash splits them; what is offered for the last one, in order.
offered() {
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    "_${program/-/_}"
    printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}
expect() {
    expected=$1
    shift
    got=$(offered "$@")
    [ "$got" = "$expected" ] || { echo "for $*: offered '$got' instead of '$expected'"; exit 1; }
}

expect '--socket-group= --socket-mode= --socket-path= ' --so
expect '--read-only ' --read
expect 'coroutine sharded thread ' --request-lock =
expect 'thread ' --request-lock = t
expect 'none writeback ' --cache =
case $(offered --fault =) in *started-before-attach*) ;; *) echo "no fault is offered"; exit 1 ;; esac

# An option whose value list is offered refuses other words, and takes each of the list.
for option in $(vblkd --help | grep -oE '^  --[a-z-]+=' | tr -d ' ='); do
    [ "$option" != --fault ] || continue
    cd /proc/self/fdinfo # no file there begins with a letter
    for value in $(offered "$option" = | tr ' ' '\n' | grep '^[a-z]'); do
        said=$(vblkd --socket-path=/nowhere/socket --blk-file=/nowhere/disk --no-tracing "$option=$value" 2>&1) && status=0 || status=$?
        [ "$status" = 1 ] || { echo "$option=$value is offered and refused (status $status): $said"; exit 1; }
    done
done

cd /proc/self/fdinfo
program=vblk-load
expect 'info verify ' ''
expect '--packed ' --pa
expect '--ack-log= ' verify --ack
expect '--socket-path= ' info --so
expect 'randread randrw randwrite ' --rw = rand
for pattern in $(offered --rw =); do
    said=$(vblk-load --socket-path=/nowhere/socket --rw="$pattern" 2>&1) && status=0 || status=$?
    [ "$status" = 1 ] || { echo "--rw=$pattern is offered and refused (status $status): $said"; exit 1; }
done
