#!/usr/bin/env python3
"""make_seeds.py: writes the seeds of cache_entry and bundle into corpus/, from the formats as entry.hpp and
bundle_index.hpp describe them. Needs the Python package xxhash. Run it when a format changes."""

import struct
from pathlib import Path

import xxhash

FORMAT = 2
CORPUS = Path(__file__).resolve().parent / "corpus"


def digest(data: bytes) -> bytes:
    return xxhash.xxh3_128(data).digest()


def key(kernel: str, compiler: str = "build-id:00ff", options=("--fmad=false",)) -> bytes:
    lines = [f"format {FORMAT}", "target sm_90a", f"compiler {compiler}", *(f"option {o}" for o in options),
             f"source {digest(kernel.encode()).hex()}"]
    return "\n".join(lines).encode()


def portable(text: bytes) -> bytes:
    return digest(b"\n".join(line for line in text.split(b"\n") if not line.startswith(b"compiler ")))


def entry(text: bytes, kernel: str, log=b"0 bytes spill stores", ptx=b".version 9.0", cubin=b"\x7fELF" + bytes(60),
          form=FORMAT, magic=b"TESCUBIN") -> bytes:
    name = kernel.encode()
    body = magic + struct.pack("<II16sIIQQ", form, len(text), digest(text), len(name), len(log), len(ptx), len(cubin))
    body += text + name + log + ptx + cubin
    return body + digest(body)


def bundle(items) -> bytes:
    data, index = b"", []
    for text, content in items:
        index.append((portable(text), 24 + len(data), len(content)))
        data += content
    index = b"".join(struct.pack("<16sQQ", *item) for item in sorted(index))
    header = b"TESBUNDL" + struct.pack("<IIQ", FORMAT, len(items), 24 + len(data))
    return header + data + index + digest(header + index)


def write(folder: str, seeds: dict) -> None:
    (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (CORPUS / folder / name).write_bytes(data)


if __name__ == "__main__":
    whole = entry(key("a"), "a")
    write("cache_entry", {
        "whole": whole,
        "bare": entry(b"", "", b"", b"", b"\x7fELF" + bytes(60)),
        "long_log": entry(key("b", options=[]), "b", log=b"ptxas info\n" * 60),
        "other_format": entry(key("a"), "a", form=1),
        "other_magic": entry(key("a"), "a", magic=b"TESBUNDL"),
        "no_cubin": entry(key("a"), "a", cubin=b"// text"),
        "cut": whole[: len(whole) // 2],
        "header": whole[:56],
        "empty": b"",
    })
    entries = [(key(k), entry(key(k), k)) for k in ("a", "b", "c")]
    write("bundle", {
        "three": bundle(entries),
        "one": bundle(entries[:1]),
        "none": bundle([]),
        "damaged_entry": bundle([(entries[0][0], entries[0][1][:-1] + b"x"), entries[1]]),
        "twice": bundle([entries[0], entries[0]]),
        "cut": bundle(entries)[:200],
    })
