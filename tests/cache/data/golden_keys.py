#!/usr/bin/env python3
"""golden_keys.py: writes golden_keys.json, keys computed without the library.

Each case has the inputs of a key and what a reader of runtime/cache/cache_key.hpp makes of them by hand: the CUDA text
without what does not count, and the options in their one spelling and order. The digests come from the Python package
xxhash. Run it only when the cache's format changes.
"""

import json
from pathlib import Path

import xxhash

FORMAT = 2
KERNEL = 'extern "C" __global__ void k(float* x) {\n    x[0] = 1.5f;\n}\n'
BARE = 'extern "C" __global__ void k(float* x) {\nx[0] = 1.5f;\n}\n'
STANDARD = ["--gpu-architecture=sm_90a", "--std=c++17", "--fmad=false", "--ptxas-options=-v"]
STANDARD_SORTED = ["--fmad=false", "--gpu-architecture=sm_90a", "--ptxas-options=-v", "--std=c++17"]

# name, CUDA text, target, compiler, options, CUDA text that counts, options that count
CASES = [
    ("as the library compiles", KERNEL, "sm_90a", "build-id:00ff", STANDARD, BARE, STANDARD_SORTED),
    ("two options", KERNEL, "sm_90a", "build-id:00ff", ["--gpu-architecture=sm_90a", "--fmad=false"], BARE,
     ["--fmad=false", "--gpu-architecture=sm_90a"]),
    ("another target", KERNEL, "sm_100a", "build-id:00ff", STANDARD, BARE, STANDARD_SORTED),
    ("no compiler", KERNEL, "sm_90a", "", STANDARD, BARE, STANDARD_SORTED),
    ("another constant", KERNEL.replace("1.5f", "1.25f"), "sm_90a", "build-id:00ff", STANDARD,
     BARE.replace("1.5f", "1.25f"), STANDARD_SORTED),
    ("comments and lines do not count", '// head\n#line 7 "a.cpp"\n' + KERNEL, "sm_90a", "build-id:00ff", STANDARD, BARE,
     STANDARD_SORTED),
    ("with line information they do", '#line 7 "a.cpp"\nint a;  // x\n', "sm_90a", "build-id:00ff", ["-lineinfo"],
     '#line 7 "a.cpp"\nint a;\n', ["--generate-line-info"]),
    ("defaults do not count", KERNEL, "sm_90a", "build-id:00ff", ["-fmad=true", " --ftz=false "], BARE, []),
    ("no options, no text", "", "sm_90a", "xxh3:99aa06d3014798d86001c324468d497f", [], "", []),
    ("an end of line and a backslash in an option", "int a;\n", "sm_90a", "build-id:1", ["--define=A=\"x\ny\\z\""],
     "int a;\n", ["--define=A=\"x\\ny\\\\z\""]),
    ("a text of more than a block of the hash", "int a;\n" * 300, "sm_90a", "build-id:1", [], "int a;\n" * 300, []),
]


def digest(text: str) -> str:
    return xxhash.xxh3_128(text.encode()).hexdigest()


def case(name, cuda, target, compiler, options, source, normalised):
    lines = [f"format {FORMAT}", f"target {target}", f"compiler {compiler}"]
    lines += [f"option {option}" for option in normalised]
    lines.append(f"source {digest(source)}")
    portable = [line for line in lines if not line.startswith("compiler ")]
    return {
        "name": name, "cuda": cuda, "target": target, "compiler": compiler, "options": options,
        "text": "\n".join(lines), "key": digest("\n".join(lines)), "bundle_name": digest("\n".join(portable)),
    }


if __name__ == "__main__":
    file = Path(__file__).with_suffix(".json")
    file.write_text(json.dumps([case(*c) for c in CASES], indent=1) + "\n", encoding="utf-8")
