#!/usr/bin/env python3
"""unpack_wheel.py <wheel> <folder> <suffix>...: writes the members whose paths end in a suffix, without directories."""

import shutil
import sys
import zipfile
from pathlib import Path


def main() -> int:
    wheel, folder, suffixes = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    folder.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for suffix in suffixes:
            members = [name for name in archive.namelist() if ("/" + name).endswith("/" + suffix)]
            if len(members) != 1:
                print(f"   {wheel.name} has {len(members)} members named …/{suffix}, not one", file=sys.stderr)
                return 1
            with archive.open(members[0]) as source, open(folder / Path(suffix).name, "wb") as target:
                shutil.copyfileobj(source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
