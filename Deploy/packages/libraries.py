#!/usr/bin/python3
"""The libraries of a program, and the Debian packages that they come from.

    Deploy/packages/libraries.py PROGRAM

prints the packages that PROGRAM needs, as the field Depends of a Debian package.
"""
import os
import re
import subprocess
import sys
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
    """Returns the packages of all libraries that the program loads, sorted; libraries of no package are left out."""
    return packages_with(libraries(program))


def packages_with(paths):
    """Returns the packages to which the files belong, sorted."""
    # With merged /usr, a package may list a file in either place, and under the name of a link to it.
    names = {place.removeprefix("/usr") for each in paths for place in (each, os.path.realpath(each))}
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


def linked_packages(program):
    """Returns the packages whose archives are inside the program; Deploy/build-static lists them."""
    try:
        with open(f"{program}.packages", encoding="utf-8") as file:
            return [Package(*line.split()) for line in file]
    except FileNotFoundError:
        return []


def dependencies(program):
    """Returns the packages of the libraries that the program names, with the version of the C library that it needs."""
    told = subprocess.run(["objdump", "--private-headers", program], check=True, capture_output=True, text=True).stdout
    named = re.findall(r"^ *NEEDED +(\S+)", told, re.MULTILINE)
    versions = [[int(part) for part in each.split(".")] for each in re.findall(r"GLIBC_([0-9.]+)", told)]
    version = f" (>= {'.'.join(map(str, max(versions)))})" if versions else ""
    packages = packages_with([each for each in libraries(program) if os.path.basename(each) in named])
    return [each.name + (version if each.name == "libc6" else "") for each in packages]


if __name__ == "__main__":
    print(", ".join(dependencies(sys.argv[1])))
