#!/bin/sh
# Goal: what a call site passes arrives in the trace: name, fields, order, widths, signs, enumerations, contexts.
# Method: a program emits every event once with values at the far end of each type; it is recorded with all sets, and with
#   the core set alone, and babeltrace2's text is compared with a text written by hand.
# If it fails: a header is wrong, or the recorder enables other events than the sets promise.
# usage: integration_events.sh RECORDER EMITTER CATALOGUE
set -eu
here=$(dirname "$0")
. "$here/../private_lttng.sh"
recorder=$1 emitter=$2 catalogue=$3

# "[time] (+delta) host name: { cpu_id = n }, { contexts }, { fields }" to "name: { fields }"
events_of() {
    babeltrace2 "$1" | sed -E 's/^\[[^]]*\] \([^)]*\) \S+ (\S+: )\{ [^}]* \}, \{ [^}]* \}, /\1/'
}

step "all sets"
"$recorder" --events=all --output="$work/all" -- "$emitter" every
{ cat "$here/../expected/every_event.txt"
  echo 'rt_lock:acquired: { lock_id = 1, thread_id = 2, coroutine_id = 3, waited = 0 }'; } >"$work/all.expected"
events_of "$work/all" >"$work/all.got"
diff -u "$work/all.expected" "$work/all.got" || fail "the events differ from what was emitted"

step "the core set: acquisitions only where a wait came before"
"$recorder" --output="$work/core" -- "$emitter" every
"$catalogue" --list | awk '$2 == "core" { print $1 ":" }' >"$work/core.names"
grep -F -f "$work/core.names" "$here/../expected/every_event.txt" >"$work/core.expected"
events_of "$work/core" >"$work/core.got"
diff -u "$work/core.expected" "$work/core.got" || fail "the core set differs from the catalogue"
grep -q 'rt_lock:acquired' "$work/core.got" || fail "no acquisition after a wait"

step "one high-rate set"
"$recorder" --events=loop --output="$work/loop" -- "$emitter" every
"$catalogue" --list | awk '$2 == "core" || $2 == "loop" { print $1 ":" }' >"$work/loop.names"
grep -F -f "$work/loop.names" "$here/../expected/every_event.txt" >"$work/loop.expected"
events_of "$work/loop" >"$work/loop.got"
diff -u "$work/loop.expected" "$work/loop.got" || fail "the set loop differs from the catalogue"

step "contexts"
babeltrace2 "$work/all" | grep -vE '\{ vtid = [0-9]+, vpid = [0-9]+(, procname = "emitter")? \}' &&
    fail "an event lacks vtid or vpid"
babeltrace2 "$work/core" | grep -v 'procname = "emitter"' && fail "an event of the set core lacks procname"
babeltrace2 "$work/all" | grep -E ' vblk_request:(begin|submit|complete|end): ' | grep procname &&
    fail "events that come with each request carry a name"

step "every event is in the expectation"
"$catalogue" --list | awk '{ print $1 ":" }' | sort -u >"$work/names"
cut -d' ' -f1 "$here/../expected/every_event.txt" | sort -u >"$work/names.expected"
diff -u "$work/names" "$work/names.expected" || fail "add the event to every_event.c and expected/every_event.txt"
