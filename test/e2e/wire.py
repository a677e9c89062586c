# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand, for what no well-behaved client does: half frames, a reader that stops reading, thousands of connections."""
import socket
import struct

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>I', len(payload))[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def settings(**values):
    """The only one needed here: INITIAL_WINDOW_SIZE is 4."""
    numbers = {'initial_window_size': 4}
    return frame(SETTINGS, payload=b''.join(struct.pack('>HI', numbers[name], value) for name, value in values.items()))


def _field(name, value):
    """HPACK: a literal that is not indexed, new name, no Huffman code."""
    assert len(name) < 127 and len(value) < 127
    return b'\x00' + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def headers(method, stream):
    block = b''.join(_field(*pair) for pair in (
        (':method', 'POST'), (':scheme', 'http'), (':path', '/v1beta1.DevicePlugin/' + method),
        (':authority', 'localhost'), ('content-type', 'application/grpc'), ('te', 'trailers')))
    return frame(HEADERS, END_HEADERS, stream, block)


def call(method, stream, message=b''):
    return headers(method, stream) + frame(
        DATA, END_STREAM, stream, b'\0' + struct.pack('>I', len(message)) + message)


def window_update(stream, size):
    return frame(WINDOW_UPDATE, stream=stream, payload=struct.pack('>I', size))


def connect(path, timeout=30):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)  # with a timeout it would not wait for its turn, but fail
    connection.settimeout(timeout)
    return connection


def read_to_end(connection):
    """What came until the other side closed; a reset counts as the end."""
    received = b''
    try:
        while True:
            part = connection.recv(65536)
            if not part:
                return received
            received += part
    except ConnectionError:
        return received
