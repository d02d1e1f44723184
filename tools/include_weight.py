#!/usr/bin/env python3
"""include_weight.py HEADER --limit SECONDS: what one #include costs a compilation, the best of nine runs."""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def seconds(compiler: str, text: str) -> float:
    best = float("inf")
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run(
            [compiler, "-std=c++20", "-fsyntax-only", "-I", ROOT / "include", "-I", ROOT, "-x", "c++", "-"],
            input=text, text=True, check=True,
        )
        best = min(best, time.perf_counter() - start)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("header")
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--compiler", default="g++")
    given = parser.parse_args()
    weight = seconds(given.compiler, f"#include <{given.header}>\n") - seconds(given.compiler, "")
    print(f"   {given.compiler}: #include <{given.header}> takes {weight:.3f} s")
    return 1 if weight > given.limit else 0


if __name__ == "__main__":
    sys.exit(main())
