# SPDX-License-Identifier: Apache-2.0
"""A file system whose server answers when it likes, as that of a FUSE volume of a tenant, or of NFS.

It has one file, "file": a copy of PROGRAM. Lines on the standard input say what is withheld from then on, "content" or "attributes", and
each question that gets no answer is told on the standard output. Whoever waits goes on with an error when this process ends.

usage: withheld_fs.py FOLDER PROGRAM
"""
import ctypes
import os
import select
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, ACCESS, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 34, 36, 42
HEADER = struct.Struct('=IIQQIIII')  # length, opcode, unique, node, uid, gid, pid, padding
ENOSYS = 38
FOLDER, FILE = 1, 2
DIRECT_IO, KEEP_CACHE = 1, 2


def attributes(node, size):
    mode = 0o40755 if node == FOLDER else 0o100755
    return struct.pack('=QQQQQQIIIIIIIIII', node, size if node == FILE else 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def mount(folder):
    device = os.open('/dev/fuse', os.O_RDWR)
    options = 'fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other' % device
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b'withheld', folder.encode(), b'fuse.withheld', 0, options.encode()) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return device


def answer(opcode, node, body, program):
    """The bytes of an answer, or a number: an error."""
    if opcode == INIT:
        readahead = struct.unpack_from('=III', body)[2]
        return struct.pack('=IIIIHHIIHHI', 7, 31, readahead, 0, 0, 0, 65536, 0, 0, 0, 0) + bytes(24)
    if opcode == LOOKUP:
        return struct.pack('=QQQQII', FILE, 0, 3600, 0, 0, 0) + attributes(FILE, len(program))
    if opcode == GETATTR:
        return struct.pack('=QII', 0, 0, 0) + attributes(node, len(program))
    if opcode == OPEN:  # who opens it to append maps it without a cache
        is_append = struct.unpack_from('=I', body)[0] & os.O_APPEND
        return struct.pack('=QII', 1, DIRECT_IO if is_append else KEEP_CACHE, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from('=QQI', body)
        return program[offset:offset + size]
    return b'' if opcode in (FLUSH, RELEASE, ACCESS) else -ENOSYS


def main():
    with open(sys.argv[2], 'rb') as file:
        program = file.read()
    device = mount(sys.argv[1])
    withheld = set()
    print('mounted', flush=True)
    while True:
        ready = select.select([device, sys.stdin], [], [])[0]
        if sys.stdin in ready:
            line = sys.stdin.readline().strip()
            if not line:
                return
            withheld.add({'content': READ, 'attributes': GETATTR}[line])
            print('withholds', flush=True)
        if device not in ready:
            continue
        question = os.read(device, 1 << 17)
        _, opcode, unique, node, _, _, pid, _ = HEADER.unpack_from(question)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        if opcode in withheld and node == FILE:
            print('asked', flush=True)
            continue
        said = answer(opcode, node, question[HEADER.size:], program)
        content = said if isinstance(said, bytes) else b''
        os.write(device, struct.pack('=IiQ', 16 + len(content), 0 if isinstance(said, bytes) else said, unique) + content)


main()
