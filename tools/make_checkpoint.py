#!/usr/bin/env python3
"""make_checkpoint.py <out.safetensors>: a small checkpoint of normally distributed F32 weights, the same on every run.

Stands in for a real model where none can be fetched. One weight is ragged (no multiple of 128), one tensor is 1-D.
"""

import array
import json
import os
import random
import sys

SHAPES = {
    "embedding.weight": (2048, 384),
    "layer.0.attention.weight": (384, 384),
    "layer.0.up.weight": (1536, 384),
    "layer.0.down.weight": (384, 1536),
    "layer.0.ragged.weight": (130, 257),
    "layer.0.norm.weight": (384,),
}


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    draw = random.Random(1)
    header, data, offset = {}, [], 0
    for name, shape in SHAPES.items():
        count = 1
        for extent in shape:
            count *= extent
        values = array.array("f", (draw.gauss(0.0, 0.04) for _ in range(count)))
        if sys.byteorder == "big":
            values.byteswap()
        size = 4 * count
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        data.append(values)
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = sys.argv[1] + ".part"
    with open(part, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for values in data:
            out.write(values.tobytes())
    os.replace(part, sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
