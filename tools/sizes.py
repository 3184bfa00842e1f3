"""Lists the sizes of each function for each instruction set: its program, and the zip that SAM uploads.

Fails if a zip is larger than LIMIT. Arguments: directories named after the instruction set, as cargo-lambda fills
them: <directory>/<function>/bootstrap.
"""

import os
import sys
import tempfile

from samcli.lib.package.utils import make_zip

LIMIT = 3_200_000


def main(directories):
    print(f"{'function':<10} {'for':<7} {'program':>10} {'zip':>10}   bytes")
    too_large = total = 0
    with tempfile.TemporaryDirectory() as scratch:
        for directory in directories:
            for function in sorted(os.listdir(directory)):
                built = os.path.join(directory, function)
                program = os.path.getsize(os.path.join(built, "bootstrap"))
                zipped = os.path.getsize(make_zip(os.path.join(scratch, function), built))
                verdict = "" if zipped <= LIMIT else "   TOO LARGE"
                print(f"{function:<10} {os.path.basename(directory):<7} {program:>10} {zipped:>10}{verdict}")
                too_large += zipped > LIMIT
                total += 1
    print(f"sizes: {total} zips, {too_large} larger than {LIMIT} bytes")
    return 1 if too_large or not total else 0


sys.exit(main(sys.argv[1:]))
