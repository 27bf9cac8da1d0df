"""Running time by thread in the measured time of a trace, with Perfetto's own message definitions, as JSON."""

import json
import sys
from collections import defaultdict

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

trace = perfetto_trace_pb2.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

assert trace.packet[0].system_info.utsname.sysname == "Linux"
names, measured, track = {}, [], None
for packet in trace.packet:
    for part in [packet, packet.track_event, packet.track_descriptor, *packet.ftrace_events.event]:
        assert not len(UnknownFieldSet(part)), part
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    if packet.HasField("track_event"):
        event = packet.track_event
        if event.name_iid and names[event.name_iid] == "measured":
            measured, track = [packet.timestamp], event.track_uuid
        elif event.track_uuid == track and len(measured) == 1:
            measured.append(packet.timestamp)
begin, end = measured

sums, since = defaultdict(int), {}


def add(thread, start, stop):
    if thread[0] != 0:
        sums[thread[1]] += max(0, min(stop, end) - max(start, begin))


def switches(bundle):
    """Time, the thread that leaves if it is told, the next thread; of both forms, in order of time."""
    told = []
    for event in bundle.event:
        if event.HasField("sched_switch"):
            s = event.sched_switch
            told.append((event.timestamp, s.prev_pid, (s.next_pid, s.next_comm)))
    compact, at = bundle.compact_sched, 0
    assert not len(UnknownFieldSet(compact))
    fields = [compact.switch_prev_state, compact.switch_next_pid, compact.switch_next_prio,
              compact.switch_next_comm_index]
    assert all(len(field) == len(compact.switch_timestamp) for field in fields)
    wakings = [compact.waking_pid, compact.waking_target_cpu, compact.waking_prio, compact.waking_comm_index,
               compact.waking_common_flags]
    assert all(len(field) == len(compact.waking_timestamp) for field in wakings)
    for delta, pid, name in zip(compact.switch_timestamp, compact.switch_next_pid, compact.switch_next_comm_index):
        at += delta
        told.append((at, None, (pid, compact.intern_table[name])))
    return sorted(told, key=lambda switch: switch[0])


for packet in trace.packet:
    bundle = packet.ftrace_events
    for at, prev, thread in switches(bundle):
        assert bundle.cpu in since or prev is not None, "a reader drops a CPU's first switch if it is compact"
        if bundle.cpu in since:
            start, before = since[bundle.cpu]
            assert prev is None or before[0] == prev
            add(before, start, at)
        since[bundle.cpu] = (at, thread)
for start, thread in since.values():
    add(thread, start, end)
print(json.dumps(sums))
