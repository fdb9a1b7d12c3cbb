#!/usr/bin/env python3
"""Goal: tests/packages installs on a bare Debian whatever the build and the tests look for.

Method: each dependency(), find_library() and find_program() of the meson files is looked up on this machine; the
package that owns what is found must be in tests/packages or needed by one that is. If it fails: a fresh machine would
build without that part, or not at all.

Usage: meta_packages.py COMPILER...
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import tree

CALL = re.compile(r"\b(dependency|find_library|find_program)\(\s*'([^']+)'")
# Provided by the compiler and the C library; owned by no package of their own.
BUILT_IN = {("dependency", "threads"), ("dependency", "dl")}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def locate(kind, name, compiler):
    """The file on this machine that satisfies the call, or None."""
    if kind == "dependency":
        place = output("pkg-config", "--variable=pcfiledir", name)
        return f"{place}/{name}.pc" if place else None
    if kind == "find_program":
        return shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    for suffix in ("so", "a"):
        path = output(*compiler, f"-print-file-name=lib{name}.{suffix}")
        if "/" in path:
            return str(Path(path).resolve() if suffix == "a" else Path(path).parent.resolve() / Path(path).name)
    return None


def names_of(path):
    """/bin and /usr/bin are one directory, of which dpkg knows one name."""
    return {path, path.removeprefix("/usr"), "/usr" + path, str(Path(path).resolve())}


def owners_of(paths):
    """{path: packages that own it}, asked at once because each question reads all of dpkg's lists."""
    result = {path: set() for path in paths}
    wanted = {name: path for path in paths for name in names_of(path)}
    for line in output("dpkg-query", "-S", *sorted(wanted)).splitlines():
        packages, _, name = line.rpartition(": ")
        if name in wanted:
            result[wanted[name]] |= {package.split(":")[0].strip() for package in packages.split(",")}
    return result


def closure(packages):
    """The packages and all that they depend on, as far as installed."""
    depends = {}
    form = "${Package}|${Essential}|${Provides}|${Depends},${Pre-Depends}\n"
    for line in output("dpkg-query", "-W", "-f", form).splitlines():
        package, essential, provides, needs = line.split("|", 3)
        names = {re.split(r"[ :(]", need.strip())[0] for need in re.split(r"[,|]", needs) if need.strip()}
        depends[package] = names
        for provided in provides.split(","):
            if provided.strip():
                depends.setdefault(re.split(r"[ (]", provided.strip())[0], set()).add(package)
        if essential == "yes":
            packages = packages | {package}
    result, open_ones = set(), list(packages)
    while open_ones:
        package = open_ones.pop()
        if package not in result:
            result.add(package)
            open_ones += depends.get(package, ())
    return result


def main():
    compiler = sys.argv[1:]
    if not compiler:
        sys.exit(__doc__)
    if not shutil.which("dpkg-query"):
        print("dpkg-query is not installed: package names cannot be checked on this system")
        sys.exit(tree.SKIP)
    listed = {line.split("#")[0].strip() for line in tree.text("tests/packages").splitlines()} - {""}
    covered = closure(listed)
    problems = []
    calls = {(kind, name, path) for path in tree.files("meson.build") for kind, name in CALL.findall(tree.text(path))
             if (kind, name) not in BUILT_IN and not (tree.ROOT / path.parent / name).exists()}
    located = {(kind, name): locate(kind, name, compiler) for kind, name, _ in calls}
    owners = owners_of({path for path in located.values() if path})
    for kind, name, path in sorted(calls):
        found = located[kind, name]
        if not found:
            problems.append(f"{path}: {kind}('{name}') is satisfied by nothing on this machine")
        elif not owners[found]:
            problems.append(f"{path}: {kind}('{name}'): no package owns {found}")
        elif not owners[found] & covered:
            problems.append(f"{path}: {kind}('{name}') needs {', '.join(owners[found])}: add it to tests/packages")
    tree.finish(problems, len(calls), "dependencies")


main()
