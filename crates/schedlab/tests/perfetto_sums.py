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


for packet in trace.packet:
    bundle = packet.ftrace_events
    for event in bundle.event:
        if event.HasField("sched_switch"):
            switch = event.sched_switch
            if bundle.cpu in since:
                start, thread = since[bundle.cpu]
                assert thread[0] == switch.prev_pid
                add(thread, start, event.timestamp)
            since[bundle.cpu] = (event.timestamp, (switch.next_pid, switch.next_comm))
for start, thread in since.values():
    add(thread, start, end)
print(json.dumps(sums))
