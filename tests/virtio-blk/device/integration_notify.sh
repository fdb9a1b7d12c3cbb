#!/bin/sh
# Goal: what the old way of waking loops costs is seen in a recording and told; see notify_policies.py, which does the work.
# Method: a session daemon of its own, in namespaces of its own.
# If it fails: see notify_policies.py.
# usage: integration_notify.sh PYTHON
set -eu
here=$(dirname "$0")
. "$here/../../tracepoints/private_lttng.sh"
lttng-sessiond --daemonize --quiet || fail "the session daemon does not start"
"$1" "$here/notify_policies.py"
