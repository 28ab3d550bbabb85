"""Reads TensorBoard's event files with independent code, from the definitions of TFRecord, CRC-32C and
tensorflow.Event.

    read_events.py FOLDER    prints a JSON array: for each file, in the order of their names,
                             {"name", "version", "start", "scalars": {tag: [[step, value, wall time]]}, "whole"}

"start" is the step of the session's first record. "whole" is false if the file ends within a record. A record with a
wrong CRC is an error, and so is a field whose number or type is not Event's.
"""

import json
import pathlib
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check_crc(data, stored):
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != stored:
        raise ValueError(f"a CRC is {stored:#x} and should be {masked:#x}")


def records(data):
    """Yields the records of a file. If the file ends within a record, yields None last."""
    at = 0
    while at < len(data):
        if len(data) - at < 12:
            return (yield None)
        length, length_crc = struct.unpack_from("<QI", data, at)
        check_crc(data[at : at + 8], length_crc)
        if len(data) - at < 16 + length:
            return (yield None)
        body = data[at + 12 : at + 12 + length]
        check_crc(body, struct.unpack_from("<I", data, at + 12 + length)[0])
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(message, types):
    """Yields (number, value) of each field. `types` has the wire type that each number must have."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        number, wire = key >> 3, key & 7
        if types.get(number) != wire:
            raise ValueError(f"a message has field {number} of wire type {wire}")
        if wire == 0:
            value, at = varint(message, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(wire) or varint(message, at)
            value, at = message[at : at + size], at + size
            if len(value) != size:
                raise ValueError("a field is longer than its message")
        yield number, value


EVENT = {1: 1, 2: 0, 3: 2, 5: 2, 7: 2}  # wall_time, step, file_version, summary, session_log
SUMMARY = {1: 2}  # value
VALUE = {1: 2, 2: 5}  # tag, simple_value
SESSION_LOG = {1: 0}  # status


def read(path):
    file = {"name": path.name, "version": None, "start": None, "scalars": {}, "whole": True}
    for record in records(path.read_bytes()):
        if record is None:
            file["whole"] = False
            continue
        event = dict(fields(record, EVENT))
        time = struct.unpack("<d", event[1])[0]
        if 3 in event:
            file["version"] = event[3].decode()
        elif 7 in event:
            if dict(fields(event[7], SESSION_LOG)) != {1: 1}:
                raise ValueError("a session log is no start")
            file["start"] = event[2] if file["start"] is None else file["start"]
        for _, value in fields(event.get(5, b""), SUMMARY):
            scalar = dict(fields(value, VALUE))
            points = file["scalars"].setdefault(scalar[1].decode(), [])
            points.append([event[2], struct.unpack("<f", scalar[2])[0], time])
    return file


if __name__ == "__main__":
    print(json.dumps([read(path) for path in sorted(pathlib.Path(sys.argv[1]).iterdir())]))
