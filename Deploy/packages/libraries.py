"""The shared libraries that a program loads, and the Debian packages that they come from."""
import os
import re
import subprocess
from collections import namedtuple

Package = namedtuple("Package", "name version architecture")


def libraries(program):
    """Returns the paths at which the program finds its libraries and its loader, sorted."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    missing = re.findall(r"^\s*(\S+) => not found", listed, re.MULTILINE)
    if missing:
        raise SystemExit(f"{program} needs libraries that this machine lacks: {', '.join(missing)}")
    return sorted(set(re.findall(r"(?:^\s*|=> )(/\S+)", listed, re.MULTILINE)))


def packages_of(program):
    """Returns the packages of the libraries, sorted; libraries of no package are left out."""
    # With merged /usr, a package may list a file in either place, and under the name of a link to it.
    names = {place.removeprefix("/usr") for each in libraries(program) for place in (each, os.path.realpath(each))}
    places = sorted(name for each in names for name in (each, "/usr" + each))
    # It succeeds only if every path belongs to a package.
    found = subprocess.run(["dpkg-query", "--search", *places], capture_output=True, text=True).stdout
    owners = sorted({line.split(":")[0] for line in found.splitlines() if not line.startswith("diversion")})
    if not owners:
        return []
    form = "${Package} ${Version} ${Architecture}\n"
    listed = subprocess.run(["dpkg-query", "--show", f"--showformat={form}", *owners],
                            check=True, capture_output=True, text=True).stdout
    return sorted({Package(*line.split()) for line in listed.splitlines()})
