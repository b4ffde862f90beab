"""`make install`: a virtual environment with what the lock files pin, and this package in it.

    python tools/install.py [--check | --run]

Runs on the Python it is given, with nothing installed yet, hence the standard library alone and
only what Python 3.7 understands. `--check` only looks for what is missing. `--run` makes the
environment of an image: what a run needs, without pip, build tools and this folder's sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile

PYTHON = (3, 11)
JAVA = 17
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PRODUCER = os.path.join(ROOT, "producer")
VENV = os.path.join(ROOT, ".venv")
BUILD_LOCK = os.path.join(ROOT, "requirements-build.lock")
LOCK = os.path.join(ROOT, "requirements.lock")
SOURCES = ("src", "producer/src", "tests", "bench", "examples")
RUN_LOCK = os.path.join(ROOT, "requirements-run.lock")
KERBEROS_LOCK = os.path.join(ROOT, "requirements-kerberos.lock")


def missing() -> list[str]:
    """One line for each thing that a person has to install first."""
    lines = [python_problem(), java_problem()]
    return [line for line in lines if line]


def python_problem() -> str | None:
    if sys.version_info < PYTHON:
        have, need = (".".join(map(str, v)) for v in (sys.version_info[:2], PYTHON))
        return f"Python is {have}: install Python {need} or later (make PYTHON=… names one)"
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        return (
            "Python has no venv module: install the package that brings it "
            "(python3-venv on Debian and Ubuntu)"
        )
    return None


def java_problem() -> str | None:
    """JAVA_HOME decides alone when it is set, as it does for Spark."""
    remedy = f"install a Java {JAVA} or later runtime, or point JAVA_HOME at one"
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return f"Java is missing: {remedy}"
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        where = " (from JAVA_HOME)" if home else ""
        return f"{java}{where} does not run: {remedy}"
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None:
        return f"{java} does not tell its version: {remedy}"
    if int(found.group(1)) < JAVA:
        return f"{java} is Java {found.group(1)}, too old: {remedy}"
    return None


def install() -> None:
    if not os.path.exists(os.path.join(VENV, "bin", "python")):
        print("Creating .venv", flush=True)
        run([sys.executable, "-m", "venv", VENV], "create .venv")
    # Some packages come as sources. Their build tools are pinned as well, so they go in first, and
    # pip must not fetch others of its own for them.
    pip_install(
        "build tools", ["--no-deps", "--require-hashes", "-r", BUILD_LOCK], pinned(BUILD_LOCK)
    )
    exactly = ["--no-deps", "--no-build-isolation"]
    pip_install("packages", [*exactly, "--require-hashes", "-r", LOCK], pinned(LOCK))
    kerberos(exactly)
    for name, folder in (("causeway", ROOT), ("causeway-producer", PRODUCER)):
        pip_install(name, [*exactly, "--editable", folder], 1)
    # pip compiles all packages but those that can be edited.
    python = os.path.join(VENV, "bin", "python")
    sources = [os.path.join(ROOT, folder) for folder in SOURCES]
    run([python, "-m", "compileall", "-q", *sources], "compile causeway")
    print("Starting Spark once, to prepare for quick starts", flush=True)
    # Without what this makes all works as well, a bit slower: so its failure is no matter.
    subprocess.run(
        [python, "-m", "causeway.daemon.spark.rehearsal"], capture_output=True, check=False
    )


def has_kerberos() -> bool:
    """Whether MIT's library and its headers are here, against which gssapi is built."""
    return shutil.which("krb5-config") is not None


def kerberos(exactly: list[str]) -> None:
    """The extra `kerberos`, if it can be built. All else works without it, and its tests are
    skipped."""
    if not has_kerberos():
        return
    print("Installing Kerberos", flush=True)
    pip = [os.path.join(VENV, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
    command = [*pip, "install", *exactly, "--require-hashes", "-r", KERBEROS_LOCK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(
            "causeway: gssapi cannot be built, so Kerberos is missing: install a C compiler, and"
            " the headers of Python and of Kerberos (libkrb5-dev)",
            file=sys.stderr,
        )


def install_for_runs() -> None:
    """Builds wheels with tools of a second environment, which goes away, so that nothing but the
    wheels' content is in the first one."""
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV], "create .venv")
    python = os.path.join(VENV, "bin", "python")
    with tempfile.TemporaryDirectory() as folder:
        tools, wheels = os.path.join(folder, "tools"), os.path.join(folder, "wheels")
        run([sys.executable, "-m", "venv", tools], "create an environment of build tools")
        pip = [os.path.join(tools, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
        exactly = ["--no-deps", "--require-hashes"]
        build = ["wheel", "--no-build-isolation", "--wheel-dir", wheels]
        print("Installing build tools", flush=True)
        run([*pip, "install", *exactly, "-r", BUILD_LOCK], "install build tools")
        print("Building wheels", flush=True)
        run([*pip, *build, *exactly, "-r", RUN_LOCK], "build wheels")
        if has_kerberos():
            run([*pip, *build, *exactly, "-r", KERBEROS_LOCK], "build wheels for Kerberos")
        run([*pip, *build, "--no-deps", ROOT], "build causeway")
        found = [os.path.join(wheels, name) for name in sorted(os.listdir(wheels))]
        print("Installing packages", flush=True)
        run([*pip, "--python", python, "install", "--no-deps", "--no-index", *found], "install")


def pinned(lock: str) -> int:
    """How many packages `lock` has for this machine, about: those with a condition may not be."""
    with open(lock) as lines:
        return sum(1 for line in lines if "==" in line and line[0] not in "# " and ";" not in line)


def pip_install(title: str, arguments: list[str], total: int) -> None:
    """Run pip and show how far it is: on a terminal one line that changes, else one line."""
    python = os.path.join(VENV, "bin", "python")
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar=off"]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    terminal = sys.stdout.isatty()
    if not terminal:
        print(f"Installing {title}", flush=True)
    output: list[str] = []
    begun = 0
    assert process.stdout is not None
    for line in process.stdout:
        output.append(line)
        begun += line.startswith(("Collecting", "Requirement already", "Obtaining"))
        doing = re.sub(r"\s*\(from .*|\s+--hash.*| @ file.*", "", line.strip())
        if terminal and not line.startswith("Requirement already"):
            width = shutil.get_terminal_size().columns - 1
            text = f"Installing {title} {min(begun, total)}/{total}  {doing}"
            print("\r\033[K" + text[:width], end="", flush=True)
    if terminal:
        print(f"\r\033[KInstalling {title}: ", end="", flush=True)
        print("done" if process.wait() == 0 else "failed", flush=True)
    if process.wait() != 0:
        sys.stderr.write("".join(output[-15:]))
        sys.exit(f"causeway: install {title}: pip failed, see above")


def run(command: list[str], doing: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr + done.stdout).strip().splitlines()
        sys.exit(f"causeway: {doing}: {words[-1] if words else 'failed'}")


def main() -> int:
    for_runs = "--run" in sys.argv  # Java is another part of the image
    lines = [python_problem() or ""] if for_runs else missing()
    lines = [line for line in lines if line]
    for line in lines:
        print(f"causeway: {line}", file=sys.stderr)
    if lines:
        return 1
    if for_runs:
        install_for_runs()
    elif "--check" not in sys.argv:
        install()
    return 0


if __name__ == "__main__":
    sys.exit(main())
