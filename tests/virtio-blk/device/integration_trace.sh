#!/bin/sh
# Goal: what a real recording tells about start, stop, drains and a running device is true and in the order that the
#       analyses rely on; see trace_order.py, which does the work.
# Method: a session daemon of its own, in namespaces of its own.
# If it fails: see trace_order.py.
# usage: integration_trace.sh PYTHON
set -eu
here=$(dirname "$0")
. "$here/../../tracepoints/private_lttng.sh"
lttng-sessiond --daemonize --quiet || fail "the session daemon does not start"
"$1" "$here/trace_order.py"
