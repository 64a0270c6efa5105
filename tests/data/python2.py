"""Pickles as Python 2 wrote them, the format of the official CIFAR files."""

import struct

import numpy


def python2_pickle(value) -> bytes:
    """`value` (dictionaries, lists, text, whole numbers, arrays of bytes) in the opcodes of the official files."""
    return b"\x80\x02" + _dump(value) + b"."


def _dump(value) -> bytes:
    if isinstance(value, dict):
        return b"}(" + b"".join(_dump(key) + _dump(item) for key, item in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_dump, value)) + b"e"
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode("latin-1")
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    assert value.dtype == numpy.uint8
    raw = value.tobytes()
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + b"K\0\x85U\x01b\x87R"
        + b"(K\x01" + b"".join(map(_dump, value.shape)) + b"\x86"
        + b"cnumpy\ndtype\nU\x02u1K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
        + b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )  # fmt: skip
