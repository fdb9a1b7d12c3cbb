#!/bin/sh
# Goal: what a real recording of a device tells is true; each SCRIPT beside this file says what it looks at.
# Method: a session daemon of its own, in namespaces of its own.
# If it fails: see SCRIPT, which does the work.
# usage: integration_trace.sh PYTHON SCRIPT [ARGUMENT...]
set -eu
here=$(dirname "$0")
. "$here/../../tracepoints/private_lttng.sh"
lttng-sessiond --daemonize --quiet || fail "the session daemon does not start"
python=$1 script=$2
shift 2
"$python" "$here/$script" "$@"
