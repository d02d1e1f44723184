#!/usr/bin/env python3
"""check_docs.py [--update] [--build DIR] [FILE...]: what README.md and docs/*.md show is what the commands print.

A fenced block after the line

    <!-- output of: build/tessera list -->

must equal that command's output, run by sh in the repository's root. A line of the block that is only … stands for any
number of lines. "; volatile: REGEX" before --> names what may differ from run to run. Other HTML comments are left
alone. Links to files must lead somewhere. --build replaces build; --update writes the outputs into the files.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"<!-- output of: (?P<command>.+?)(?:; volatile: (?P<volatile>.+?))? -->\n+(?P<open>```\w*\n)(?P<body>.*?)(?P<close>^```$)",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def output_of(command: str, build: str) -> str:
    run = subprocess.run(
        ["sh", "-c", re.sub(r"\bbuild/", build.rstrip("/") + "/", command)],
        cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
    )
    if run.returncode != 0:
        raise RuntimeError(f"exit code {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout


def lines_of(text: str, volatile: str | None) -> list[str]:
    if volatile:
        text = re.sub(volatile, "~", text)
    return [line.rstrip() for line in text.rstrip().split("\n")]


def difference(shown: list[str], printed: list[str]) -> str | None:
    """The first line of `shown` that `printed` has not, in words; None where they agree."""
    at, anywhere = 0, False
    for number, line in enumerate(shown, 1):
        if line == "…":
            anywhere = True
            continue
        found = at
        while anywhere and found < len(printed) and printed[found] != line:
            found += 1
        if found >= len(printed) or printed[found] != line:
            there = printed[at] if at < len(printed) and not anywhere else "(no such line follows)"
            return f"line {number} of the block\n    shows  {line}\n    prints {there}"
        at, anywhere = found + 1, False
    if at < len(printed) and not anywhere:
        return f"the command prints more after the block's end: {printed[at]}"
    return None


def check(path: Path, build: str, update: bool) -> list[str]:
    text = path.read_text(encoding="utf-8")
    problems = []
    for target in LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
        if not (path.parent / target).exists():
            problems.append(f"links to {target}, which does not exist")
    changed = text
    for block in BLOCK.finditer(text):
        command = block["command"]
        try:
            printed = output_of(command, build)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            problems.append(f"`{command}` fails: {error}")
            continue
        wrong = difference(lines_of(block["body"], block["volatile"]), lines_of(printed, block["volatile"]))
        if wrong and update and not re.search(r"^…$", block["body"], re.MULTILINE):
            new = block[0].replace(block["open"] + block["body"], block["open"] + printed.rstrip() + "\n")
            changed = changed.replace(block[0], new)
        elif wrong:
            problems.append(f"`{command}` prints something else: {wrong}")
    if text.count("<!-- output of: ") != len(BLOCK.findall(text)):
        problems.append("has an 'output of' comment without a fenced block after it")
    if changed != text:
        path.write_text(changed, encoding="utf-8")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--build", default="build")
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    files = given.files or [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    count = 0
    for path in files:
        for problem in check(path, given.build, given.update):
            count += 1
            print(f"{path}: {problem}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
