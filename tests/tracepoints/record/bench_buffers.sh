#!/bin/sh
# Compares buffer sizes of `vblkscope record` under the worst load there is: a thread on each CPU that does nothing but emit.
# Prints one JSON object a size: events and bytes a second that were recorded, bytes per event, share of events lost.
# usage: bench_buffers.sh RECORDER EMITTER [EVENTS_PER_THREAD]
set -eu
here=$(dirname "$0")
. "$here/../private_lttng.sh"
recorder=$1 emitter=$2 events=${3-2000000}
threads=$(nproc)

record() {
    rm -rf "$work/trace"
    "$recorder" --events=loop --output="$work/trace" "$@" >/dev/null 2>"$work/talk" || fail "$(cat "$work/talk")"
    bytes=$(find "$work/trace" -name 'detail_*' ! -name '*.idx' -exec stat --format=%s {} + | awk '{ s += $1 } END { print s }')
    seconds=$(sed -nE 's/^  size: .* in ([0-9.]+) s$/\1/p' "$work/talk")
}

# What one event takes, from a recording that is counted and lost nothing.
record -- "$emitter" flood 200000
grep -qx "  lost:   none" "$work/talk" || fail "lost events where nothing should be lost"
recorded=$(babeltrace2 "$work/trace" | wc -l)
bytes_per_event=$(echo "$bytes $recorded" | awk '{ print $1 / $2 }')

flood="for i in $(seq -s ' ' "$threads"); do '$emitter' flood $events & done; wait"
for size in 256K 1M 4M 16M 64M 256M; do
    record --buffer-size=$size -- sh -c "$flood"
    echo "$size $threads $events $bytes $seconds $bytes_per_event" | awk '{
        recorded = $4 / $6; emitted = $2 * $3
        lost = recorded < emitted ? 100 * (1 - recorded / emitted) : 0
        printf "{ \"buffer_bytes_per_cpu\": \"%s\", \"threads\": %d, \"emitted_per_s\": %.0f, \"recorded_per_s\": %.0f, " \
               "\"written_bytes_per_s\": %.0f, \"bytes_per_event\": %.1f, \"lost_percent\": %.1f }\n",
               $1, $2, emitted / $5, recorded / $5, $4 / $5, $6, lost }'
done
