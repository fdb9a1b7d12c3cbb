#!/bin/sh
# Goal: a program runs the same where the provider, LTTng or the session daemon is missing, and can say why it is not
#   traceable; where they are there the provider is found, uninstalled and installed.
# Method: run a program that loads the provider and emits every event, with each of them taken away (in a mount
#   namespace), and from a prefix that was moved.
# If it fails: vblkd does not start, or not traceable, on some machine.
# usage: integration_load.sh EMITTER PROVIDER LIBDIR
set -eu
here=$(dirname "$0")
. "$here/../private_lttng.sh"
emitter=$1 provider=$2 libdir=$3

expect() {
    got=$("$@" 2>"$work/stderr") || fail "$* ended with status $?"
    [ ! -s "$work/stderr" ] || fail "$* printed: $(cat "$work/stderr")"
}

step "the program itself needs no LTTng library"
! ldd "$emitter" | grep lttng || fail "LTTng is linked into the program"

step "no session daemon runs"
expect "$emitter" load
[ "$got" = "Success " ] || fail "not loaded from the build folder: $got"

step "the provider that the environment names, and no other"
expect env VBLKSCOPE_TRACEPOINTS="$provider" "$emitter" load
[ "$got" = "Success " ] || fail "not loaded: $got"
expect env VBLKSCOPE_TRACEPOINTS="$work/none.so" "$emitter" load
case $got in "No such file or directory $work/none.so: "*) ;; *) fail "unexpected: $got" ;; esac

step "an installed program"
mkdir -p "$work/prefix/bin" "$work/prefix/$libdir/vblkscope"
cp "$emitter" "$work/prefix/bin/program"
expect "$work/prefix/bin/program" load
case $got in "No such file or directory vblkscope-tracepoints.so: "*) ;; *) fail "unexpected: $got" ;; esac
cp "$provider" "$work/prefix/$libdir/vblkscope/"
expect "$work/prefix/bin/program" load
[ "$got" = "Success " ] || fail "not loaded from its prefix: $got"

step "a provider that is no shared object"
echo rubbish >"$work/rubbish.so"
expect env VBLKSCOPE_TRACEPOINTS="$work/rubbish.so" "$emitter" load
case $got in "Accessing a corrupted shared library"*|"Can not access a needed shared library"*) ;; *) fail "unexpected: $got" ;; esac

step "LTTng-UST is not installed"
for library in $(ldconfig -p | awk '/liblttng-ust/ { print $NF }'); do
    mount --bind /dev/null "$library"
done
expect "$emitter" load
case $got in "Can not access a needed shared library"*liblttng-ust*) ;; *) fail "unexpected: $got" ;; esac
