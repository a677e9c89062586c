# SPDX-License-Identifier: Apache-2.0
"""Makes anew the lists of what the agent of the image runs: src/cmd/often and deploy/container/often, by which its functions are placed.

Started by `tools/check-image --often`, which builds the image and says where it is. It takes four minutes and valgrind (Debian: valgrind): an
agent runs under callgrind, first as a device plugin alone, then with everything on. What the first one runs stands first in the lists, so that
a device plugin has little else in memory. A list that is old costs memory and nothing else; test/image/test_memory.py says when it is too much.
"""
import bisect
import os
import platform
import re
import subprocess
import textwrap

import image_memory
from operator_node import OperatorNode

SOURCE = os.environ['WARPSHARE_SOURCE']
BUILT = os.path.dirname(os.environ['WARPSHARE_ROOTFS'])
VALGRIND = '/usr/libexec/valgrind'
SETTLED = 40.0  # seconds, since everything takes longer

# What the start of OpenSSL as Debian builds it runs, too, where that is linked: it registers every algorithm.
REGISTERED = ('libssl.a:libssl-lib-d1_srtp.o', 'libssl.a:libssl-lib-tls_srp.o', *('libcrypto.a:' + name for name in (
    'libcrypto-lib-*_err.o', 'libcrypto-lib-bss_conn.o', 'libcrypto-lib-c_zlib.o', 'libcrypto-lib-comp_lib.o', 'libcrypto-lib-ct_*.o', 'libcrypto-lib-dsa_*.o',
    'libcrypto-lib-e_*.o', 'libcrypto-lib-eng_*.o', 'libcrypto-lib-legacy_*.o', 'libcrypto-lib-rand_meth.o', 'libcrypto-lib-tb_*.o',
    'libcrypto-lib-v3_a*.o', 'libdefault-lib-*_prov.o', 'libdefault-lib-cipher_*.o')))

# (list, the file in the image, as the linker made it, its map, words that are always there). The API server of this run speaks HTTP/1.1; others
# speak HTTP/2.
LISTS = (
    ('src/cmd/often', '/usr/bin/warpshare', 'build/src/cmd/warpshare', 'build/src/cmd/warpshare.map', ()),
    ('deploy/container/often', '/usr/lib/%s-linux-gnu/libcurl.so.4' % platform.machine(), 'libraries/libcurl.so.4', 'libraries/libcurl.so.4.map',
     (':*nghttp2_*.o', *REGISTERED)))
HEAD = '# The functions that the agent runs, first those of a device plugin alone. Made by tools/check-image --often on %s, for tools/link-order.\n'


def executed(profile):
    """{file: functions of it that ran}, of what callgrind has written."""
    names, files, found, current = {}, {}, {}, set()
    for line in profile.splitlines():
        key, _, value = line.partition('=')
        if key not in ('ob', 'cob', 'fn', 'cfn'):
            continue
        table = files if key.endswith('ob') else names
        number, name = re.match(r'(\(\d+\))(?: (.*))?', value).groups()
        if name:
            table[number] = name
        if key == 'ob':
            current = found.setdefault(files[number], set())
        elif key == 'fn':
            current.add(names[number].split("'")[0])
    return found


def sections(path):
    """[(address, name, ARCHIVE:OBJECT or '')] of a linker's map."""
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'\n {10,}(?=0x)', ' ', file.read().split('Linker script and memory map', 1)[1])
    found = []
    for name, address, size, source in re.findall(r'^ (\.text\S*) +0x([0-9a-f]+) +0x([0-9a-f]+) (\S+)', text, re.MULTILINE):
        if int(size, 16):
            of_archive = re.search(r'([^/]+\.a)\((.+)\)$', source)
            found.append((int(address, 16), name, ':'.join(of_archive.groups()) if of_archive else ''))
    return sorted(found)


def words(functions, program, linked):
    """What the list says for these functions of a program: the section of each, and its object in an archive, which may have none."""
    starts = [start for start, _, _ in linked]
    found = set()
    symbols = subprocess.run(['nm', program], stdout=subprocess.PIPE, text=True, check=True).stdout
    for address, name in re.findall(r'^([0-9a-f]+) [tTwWi] (\S+)$', symbols, re.MULTILINE):
        if name not in functions:
            continue
        _, section, source = linked[max(bisect.bisect(starts, int(address, 16)) - 1, 0)]
        if section != '.text':
            found.add(re.sub(r'\.(constprop|part|isra|lto_priv|cold)\b.*', '', section.removeprefix('.text.')))
        if source:
            found.add(source)
    return found


def profile(node, environment):
    """What callgrind writes of an agent whose files have their symbols."""
    under = ('env', 'VALGRIND_LIB=' + VALGRIND, 'valgrind.bin', '--tool=callgrind', '--callgrind-out-file=/mps/profile')
    # /proc/self/exe, which starts `warpshare mig` otherwise, is valgrind here.
    node_environment = environment and {**environment, 'WARPSHARE_MIG_PROGRAM': '/usr/bin/warpshare'}
    image_memory.measure(node, node_environment, under, {
        VALGRIND: VALGRIND, '/usr/bin/valgrind.bin': '/usr/bin/valgrind.bin',
        **{inside: os.path.join(BUILT, built) for _, inside, built, _, _ in LISTS}}, SETTLED)
    with open(node.at('mps') + '/profile', encoding='utf-8', errors='replace') as file:
        return file.read()


def main():
    node = OperatorNode()
    try:
        image_memory.prepare(node)
        profiles = [executed(profile(node, environment)) for environment in ({}, image_memory.EVERYTHING)]
    finally:
        node.finish()
    for path, inside, built, linked, always in LISTS:
        if built.startswith('libraries') and not os.path.isdir(os.path.join(BUILT, 'libraries/openssl')):
            subprocess.run(['git', '-C', SOURCE, 'checkout', '--quiet', path], check=True)
            print('%s: as before, since OpenSSL is not built from its source here' % path)
            continue
        chosen = list(always)
        for found in profiles:
            these = words(found.get(inside, ()), os.path.join(BUILT, built), sections(os.path.join(BUILT, linked)))
            chosen += sorted(these.difference(chosen))
        with open(os.path.join(SOURCE, path), 'w', encoding='utf-8') as file:
            file.write(HEAD % platform.machine())
            file.write(textwrap.fill(' '.join(chosen), 140, break_long_words=False, break_on_hyphens=False) + '\n')
        print('%s: %d names' % (path, len(chosen)))


if __name__ == '__main__':
    main()
