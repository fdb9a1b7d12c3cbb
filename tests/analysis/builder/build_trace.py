#!/usr/bin/env python3
"""usage: build_trace.py [EVENTS] FOLDER
       build_trace.py --events [PATTERN]     list the events, with fields, types and the words of enumerations

Write a tiny CTF 1.8 trace, in the shape of lttng-ust 2.13, from a readable list of events (a file, or stdin), so that
a test can state what happened instead of making it happen.

    # an event: time in seconds, where, who, what. A field that is not given is 0 or "".
    12.000001  cpu0 vtid=7  rt_loop:fd_attach  loop_id=1 handler_id=5 fd=31 role=host_notifier
    12.5       cpu1 vtid=8 vpid=200 procname=main  rt_process:info  version="1.0 beta"
    # a name for a thread saves repeating it
    !thread io0 cpu=1 vtid=9 procname=io0
    13         @io0  rt_loop:wait_begin  loop_id=2 timeout_ns=-1

Events need not be sorted. Known events have the fields, widths and enumerations of the tracepoint headers; sets are
those of the analysis catalogue. Lines that start with `!` describe the trace:

    !trace KEY=VALUE...     hostname, name, uuid, clock_uuid, offset (ns from the epoch to time 0), and for buffers of
                            one process: scheme=pid vpid=N procname=TEXT (written to the environment)
    !contexts WORD...       which of vpid vtid procname are recorded; `none` for none. Default: all three, and none
                            with scheme=pid
    !default KEY=VALUE...   vpid, vtid and procname of events that do not say (1000, 1000, vblkd)
    !declare WORD...        sets (core loop lock request coroutine) and events that the metadata declares, `none` for
                            none. Default: all. An event that is not declared is left out, as a tracer would.
    !event NAME FIELD=TYPE...   declares an event of another program, or a known one with other fields; TYPE is u8..u64,
                            i8..i64 or string
    !cpus N                 streams for CPUs 0 to N-1 even if nothing happened there
    !begin TIME, !end TIME  when recording started and stopped (default: first and last event)
    !packet cpuN TIME       a packet of that stream ends here
    !packet-bytes N         packets end when their content would grow beyond N bytes
    !discard cpuN BEGIN END [COUNT]   the tracer lost events in the packet between the two times
    !overwritten cpuN PACKETS   so many packets came before, which a flight recorder has overwritten
    !cut cpuN BYTES         keep only so many bytes of the stream's file; a negative number drops them from the end
    !corrupt cpuN OFFSET HEX   overwrite bytes of the file
    !packetised             metadata in packets, as LTTng writes it (default: plain text)

From Python: Trace(), .line(TEXT), .event(TIME_NS, CPU, NAME, FIELD=VALUE..., vtid=N), .write(FOLDER).
"""
import os
import re
import shlex
import struct
import sys
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SETS = ("core", "loop", "lock", "request", "coroutine")
INTEGER = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q"}
MAGIC, METADATA_MAGIC = 0xC1FC1FC1, 0x75D11D57
PAGE = 4096
METADATA_HEADER_BYTES = 37


def read_catalogue():
    """{name: set} from the analysis catalogue and {name: [(field, type, enumeration)]} from the tracepoint headers."""
    sets, fields, enums = {}, {}, {}
    with open(os.path.join(ROOT, "analysis/events/catalogue.h"), encoding="utf-8") as f:
        for provider, name, set_name in re.findall(r"EVENT\((\w+), (\w+), (\w+),", f.read()):
            sets[f"{provider}:{name}"] = set_name.lower()
    folder = os.path.join(ROOT, "tracepoints/include/tracepoints")
    for header in sorted(os.listdir(folder)):
        with open(os.path.join(folder, header), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        for block in text.split("LTTNG_UST_TRACEPOINT_")[1:]:
            head = re.match(r"(ENUM|EVENT)\(\s*(\w+),\s*(\w+)", block)
            if head and head[1] == "ENUM":
                enums[head[2], head[3]] = {k: int(v) for k, v in re.findall(r'enum_value\("(\w+)", (\d+)\)', block)}
            elif head:
                found = []
                for kind, args in re.findall(r"lttng_ust_field_(integer|string|enum)\(([^()]*)", block):
                    args = [a.strip() for a in args.split(",")]
                    if kind == "string":
                        found.append((args[0], "string", None))
                    else:
                        c_type = args[0] if kind == "integer" else args[2]
                        width = ("u" if c_type.startswith("u") else "i") + re.search(r"\d+", c_type)[0]
                        found.append((args[1] if kind == "integer" else args[3], width,
                                      enums[args[0], args[1]] if kind == "enum" else None))
                fields[f"{head[2]}:{head[3]}"] = found
    missing = set(sets) ^ set(fields)
    if missing:
        raise ValueError(f"catalogue and tracepoint headers disagree about {', '.join(sorted(missing))}")
    return sets, fields


def nanoseconds(text):
    sign = -1 if text.startswith("-") else 1
    whole, _, part = text.lstrip("-").partition(".")
    return sign * (int(whole) * 10**9 + int((part + "0" * 9)[:9]))


def pairs(words):
    return dict(word.split("=", 1) for word in words)


class Stream:
    def __init__(self):
        self.events = []        # (time_ns, order, bytes of id, context and payload)
        self.splits = set()     # packets end at these times
        self.discards = {}      # time a packet ends at: events lost in it
        self.cut = None
        self.overwritten = 0
        self.corrupt = []


class Trace:
    def __init__(self):
        self.sets, self.fields = read_catalogue()
        self.known = list(self.sets)
        self.own = set()        # events declared by a line of their own
        self.trace = {"hostname": "testhost", "name": "test", "scheme": "uid", "offset": 1_700_000_000 * 10**9}
        self.contexts = None
        self.default = {"vpid": "1000", "vtid": "1000", "procname": "vblkd"}
        self.threads = {}
        self.declared = None
        self.rows = []
        self.streams = {}
        self.begin = self.end = self.packet_bytes = None
        self.packetised = False

    # reading

    def line(self, text):
        words = shlex.split(text, comments=True)
        if not words:
            return
        if not words[0].startswith("!"):
            time_ns, where, *rest = nanoseconds(words[0]), *words[1:]
            who = dict(self.threads[where[1:]]) if where.startswith("@") else {"cpu": where.removeprefix("cpu")}
            while "=" in rest[0]:
                who.update(pairs([rest.pop(0)]))
            name, values = rest[0], pairs(rest[1:])
            self.event(time_ns, int(who.pop("cpu")), name, **who, **values)
            return
        command, args = words[0][1:], words[1:]
        cpu = int(args[0].removeprefix("cpu")) if args and args[0].startswith("cpu") else None
        if command == "trace":
            self.trace.update(pairs(args))
        elif command == "contexts":
            self.contexts = [a for a in args if a != "none"]
        elif command == "default":
            self.default.update(pairs(args))
        elif command == "thread":
            self.threads[args[0]] = pairs(args[1:])
        elif command == "declare":
            self.declared = set(args)
        elif command == "event":
            self.fields[args[0]] = [(n, t, None) for n, t in pairs(args[1:]).items()]
            self.known = [n for n in self.known if n != args[0]] + [args[0]]
            self.own.add(args[0])
        elif command == "cpus":
            for n in range(int(args[0])):
                self.stream(n)
        elif command in ("begin", "end"):
            setattr(self, command, nanoseconds(args[0]))
        elif command == "packet":
            self.stream(cpu).splits.add(nanoseconds(args[1]))
        elif command == "packet-bytes":
            self.packet_bytes = int(args[0])
        elif command == "discard":
            begin, end = nanoseconds(args[1]), nanoseconds(args[2])
            self.stream(cpu).splits |= {begin, end}
            self.stream(cpu).discards[end] = int(args[3]) if len(args) > 3 else 1
        elif command == "overwritten":
            self.stream(cpu).overwritten = int(args[1])
        elif command == "cut":
            self.stream(cpu).cut = int(args[1])
        elif command == "corrupt":
            self.stream(cpu).corrupt.append((int(args[1]), bytes.fromhex(args[2])))
        elif command == "packetised":
            self.packetised = True
        else:
            raise ValueError(f"unknown line !{command}")

    def read(self, lines):
        for number, text in enumerate(lines, 1):
            try:
                self.line(text)
            except (ValueError, KeyError, IndexError) as error:
                raise ValueError(f"line {number}: {text.strip()}: {error!r}") from error
        return self

    def stream(self, cpu):
        return self.streams.setdefault(cpu, Stream())

    def event(self, time_ns, cpu, name, /, **values):
        if name not in self.fields:
            raise KeyError(f"unknown event {name}")
        who = {key: values.pop(key) for key in ("vpid", "vtid", "procname") if key in values}
        unknown = set(values) - {f[0] for f in self.fields[name]}
        if unknown:
            raise KeyError(f"{name} has no field {', '.join(sorted(unknown))}")
        self.rows.append((time_ns, cpu, name, who, values))
        self.stream(cpu)

    # writing

    def recorded_contexts(self):
        if self.contexts is not None:
            return self.contexts
        return [] if self.trace["scheme"] == "pid" else ["vpid", "vtid", "procname"]

    def is_declared(self, name):
        if self.declared is None or name in self.own:
            return True
        return name in self.declared or self.sets[name] in self.declared

    def encode(self, name, who, values):
        out = b""
        for context in self.recorded_contexts():
            value = who.get(context, self.default[context])
            out += value.encode()[:16].ljust(17, b"\0") if context == "procname" else struct.pack("<i", int(value))
        for field, kind, enumeration in self.fields[name]:
            if kind == "string":
                out += str(values.get(field, "")).encode() + b"\0"
                continue
            value = values.get(field, 0)
            if isinstance(value, str):
                value = enumeration[value] if enumeration and value in enumeration else int(value, 0)
            out += struct.pack(INTEGER[kind], value)
        return out

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        ids = {name: i for i, name in enumerate(n for n in self.known if self.is_declared(n))}
        digest = repr((sorted(self.trace.items()), self.rows)).encode().hex()
        self.uuid = uuid.UUID(self.trace["uuid"]) if "uuid" in self.trace else uuid.uuid5(uuid.NAMESPACE_OID, digest)
        for stream in self.streams.values():
            stream.events = []
        for order, (time_ns, cpu, name, who, values) in enumerate(self.rows):
            if name in ids:
                self.stream(cpu).events.append((time_ns, order, ids[name], self.encode(name, who, values)))
        times = [e[0] for s in self.streams.values() for e in s.events]
        begin = self.begin if self.begin is not None else min(times, default=0)
        end = self.end if self.end is not None else max(times + [begin])
        for cpu, stream in self.streams.items():
            data = bytearray(b"".join(self.packets(cpu, stream, begin, end)))
            for offset, patch in stream.corrupt:
                data[offset:offset + len(patch)] = patch
            if stream.cut is not None:
                del data[stream.cut if stream.cut >= 0 else max(0, len(data) + stream.cut):]
            with open(os.path.join(folder, f"channel0_{cpu}"), "wb") as f:
                f.write(data)
        text = self.metadata(ids).encode()
        with open(os.path.join(folder, "metadata"), "wb") as f:
            f.write(self.metadata_packets(text) if self.packetised else text)

    def packets(self, cpu, stream, begin, end):
        """The stream's packets: contiguous in time; a split belongs to the packet that it ends."""
        splits = sorted(stream.splits | {end})
        events = sorted(stream.events)
        lost, sequence, packet_begin, position = 0, stream.overwritten, begin, 0
        for split in splits:
            packet_end = max(split, packet_begin)
            while True:
                content, last = b"", packet_begin
                while position < len(events) and (events[position][0] <= split or split == splits[-1]):
                    time_ns, _, event_id, body = events[position]
                    entry = self.event_header(event_id, time_ns, last) + body
                    if content and self.packet_bytes and len(content) + len(entry) > self.packet_bytes:
                        break
                    content, last, position = content + entry, max(last, time_ns), position + 1
                else:
                    lost += stream.discards.get(split, 0)
                    yield self.packet(cpu, packet_begin, max(packet_end, last), content, sequence, lost)
                    packet_begin, sequence = max(packet_end, last), sequence + 1
                    break
                yield self.packet(cpu, packet_begin, last, content, sequence, lost)
                packet_begin, sequence = last, sequence + 1

    @staticmethod
    def event_header(event_id, time_ns, last):
        if event_id < 65535 and 0 <= time_ns - last < 1 << 32:
            return struct.pack("<HI", event_id, time_ns & 0xFFFFFFFF)
        return struct.pack("<HIQ", 65535, event_id, time_ns)

    def packet(self, cpu, begin, end, content, sequence, lost):
        header_bytes = 4 + 16 + 4 + 8 + 6 * 8 + 4
        size = -(-(header_bytes + len(content)) // PAGE) * PAGE
        header = struct.pack("<I16sIQ", MAGIC, self.uuid.bytes, 0, cpu)
        header += struct.pack("<QQQQQQI", begin, end, (header_bytes + len(content)) * 8, size * 8, sequence, lost, cpu)
        return (header + content).ljust(size, b"\0")

    def metadata_packets(self, text):
        room = PAGE - METADATA_HEADER_BYTES
        out = b""
        for start in range(0, len(text), room):
            part = text[start:start + room]
            header = struct.pack("<I16sIIIBBBBB", METADATA_MAGIC, self.uuid.bytes, 0,
                                 (METADATA_HEADER_BYTES + len(part)) * 8, PAGE * 8, 0, 0, 0, 1, 8)
            out += (header + part).ljust(PAGE, b"\0")
        return out

    def metadata(self, ids):
        env = {"domain": "ust", "tracer_name": "lttng-ust", "tracer_major": 2, "tracer_minor": 13,
               "tracer_buffering_scheme": self.trace["scheme"],
               "tracer_buffering_id": int(self.trace.get("vpid", 0)), "architecture_bit_width": 64,
               "trace_name": self.trace["name"], "hostname": self.trace["hostname"]}
        if self.trace["scheme"] == "pid":
            env |= {"vpid": int(self.trace["vpid"]), "procname": self.trace["procname"]}
        clock_uuid = self.trace.get("clock_uuid", "5f0f3a6e-6d59-4e4c-8f0e-0d6a53b1c001")
        context = "".join(f"\t\t{self.declaration(c, 'procname' if c == 'procname' else 'i32', None)}\n"
                          for c in self.recorded_contexts())
        text = METADATA_HEAD % {
            "uuid": self.uuid, "env": "".join(f"\t{k} = {v if isinstance(v, int) else quote(v)};\n"
                                              for k, v in env.items()),
            "clock_uuid": clock_uuid, "offset": int(self.trace["offset"]),
            "context": f"\tevent.context := struct {{\n{context}\t}};\n" if context else ""}
        for name, event_id in ids.items():
            fields = "".join(f"\t\t{self.declaration(*f)}\n" for f in self.fields[name])
            text += (f"event {{\n\tname = \"{name}\";\n\tid = {event_id};\n\tstream_id = 0;\n\tloglevel = 13;\n"
                     f"\tfields := struct {{\n{fields}\t}};\n}};\n\n")
        return text

    @staticmethod
    def declaration(name, kind, enumeration):
        if kind == "string":
            return f"string _{name};"
        if kind == "procname":
            return f"integer {{ size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }} _{name}[17];"
        integer = (f"integer {{ size = {kind[1:]}; align = 8; signed = {int(kind[0] == 'i')}; encoding = none; "
                   f"base = 10; }}")
        if enumeration:
            values = ", ".join(f'"{k}" = {v}' for k, v in enumeration.items())
            return f"enum : {integer} {{ {values} }} _{name};"
        return f"{integer} _{name};"


def quote(text):
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


METADATA_HEAD = """/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;

trace {
	major = 1;
	minor = 8;
	uuid = "%(uuid)s";
	byte_order = le;
	packet.header := struct {
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	};
};

env {
%(env)s};

clock {
	name = "monotonic";
	uuid = "%(clock_uuid)s";
	description = "Monotonic Clock";
	freq = 1000000000; /* Frequency, in Hz */
	/* clock value offset from Epoch is: offset * (1/freq) */
	offset = %(offset)d;
};

typealias integer {
	size = 32; align = 8; signed = false;
	map = clock.monotonic.value;
} := uint32_clock_monotonic_t;

typealias integer {
	size = 64; align = 8; signed = false;
	map = clock.monotonic.value;
} := uint64_clock_monotonic_t;

struct packet_context {
	uint64_clock_monotonic_t timestamp_begin;
	uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	unsigned long events_discarded;
	uint32_t cpu_id;
};

struct event_header_large {
	enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
	variant <id> {
		struct {
			uint32_clock_monotonic_t timestamp;
		} compact;
		struct {
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		} extended;
	} v;
} align(8);

stream {
	id = 0;
	event.header := struct event_header_large;
	packet.context := struct packet_context;
%(context)s};

"""


def list_events(pattern):
    sets, fields = read_catalogue()
    for name in sorted(fields):
        if not re.search(pattern, name):
            continue
        print(f"{name}  ({sets[name]})")
        for field, kind, words in fields[name]:
            print(f"    {field}={kind}" + (f"  {' '.join(f'{word}={value}' for word, value in words.items())}" if words else ""))


def main():
    if sys.argv[1:2] == ["--events"] and len(sys.argv) <= 3:
        list_events(sys.argv[2] if len(sys.argv) == 3 else "")
        return 0
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] == ["--help"] else sys.stderr)
        return 0 if sys.argv[1:] == ["--help"] else 2
    try:
        if len(sys.argv) == 3:
            with open(sys.argv[1], encoding="utf-8") as f:
                trace = Trace().read(f)
        else:
            trace = Trace().read(sys.stdin)
        trace.write(sys.argv[-1])
    except (OSError, ValueError, struct.error) as error:
        print(f"build_trace: {sys.argv[1] if len(sys.argv) == 3 else 'stdin'}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
