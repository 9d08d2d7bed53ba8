"""What this program leaves out, held by tests: each rule reads source text, and is itself tried on planted text."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import daemon
import jobs
import storage

ROOT = Path(__file__).resolve().parent.parent

#: A package imports only itself and what stands before it.
LAYERS = ("storage", "jobs", "daemon")

#: The files that speak HTTP.
HTTP = {f"daemon/{name}.py" for name in ("rpc", "connections", "streams", "calls")}

#: A library which few files may know, and those files.
HOMES = {
    "qdrant_edge": {"storage/edge.py", "storage/edge_filter.py", "storage/keywords.py"},
    "qdrant_client": {"storage/server.py"},
    "litellm": {"daemon/llm.py"},
    "apscheduler": {"daemon/scheduler.py"},
    "aiohttp": HTTP,
    "prometheus_client": {"daemon/metrics.py"},
    "matplotlib": {"daemon/plot.py"},
    "sqlite3": {"storage/database.py", "storage/exchange/sqlite_files.py"},
}

#: What reads time, dice or the environment, and who may.
CLOCK, CONFIG = {"daemon/clock.py"}, {"daemon/config.py", "daemon/cli.py"}
WAITING = CLOCK | HTTP | {"daemon/scheduler.py", "daemon/runner.py"}
READERS = {
    **dict.fromkeys(["time.time", "time.time_ns", "datetime.date.today"], CLOCK),
    **dict.fromkeys([f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")], CLOCK),
    **dict.fromkeys(["uuid.uuid1", "uuid.uuid4", "os.urandom", "random.SystemRandom"], CLOCK),
    **dict.fromkeys(["os.environ", "os.environb", "os.getenv"], CONFIG),
    **dict.fromkeys(["time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns"], WAITING),
}
DICE = ("random.", "secrets.", "numpy.random.")
#: Types of dice; naming one throws nothing.
DICE_TYPES = {"random.Random", "numpy.random.Generator"}

THIN = ("daemon/cli.py", "daemon/client.py", "daemon/__init__.py")
#: What a thin client imports where it is asked for more than text; it is an extra of the package.
EXTRAS = {"daemon/plot.py": "matplotlib"}
#: The client at a terminal: it writes usage lines, and ids that it was told.
AT_A_TERMINAL = {f"daemon/{name}.py" for name in ("arguments", "cli", "completion", "reports", "transfers")}
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}

ADDRESS = re.compile(r"https?://\S+/simple\b|files\.pythonhosted\.org|--(?:extra-)?index-url|\bindex-url *=")
MACHINE_PATH = re.compile(r"(?<![\w.~/}-])/(?:root|work)/|(?<![\w.~/}-])/home/[a-z]")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of every thing imported anywhere, by statement or by `import_module("...")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield node.lineno, module


def names(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Every name and attribute by its full name: with `import numpy as np`, `np.random` is `numpy.random`."""
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    full[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=str(module), names=aliases):
                full |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}

    def dotted(node: ast.expr) -> str | None:
        match node:
            case ast.Name(id=name):
                return full.get(name)
            case ast.Attribute(value=value, attr=attribute):
                base = dotted(value)
                return base and f"{base}.{attribute}"
        return None

    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node)):
            yield node, name


def upward_imports(path: str, tree: ast.AST) -> Iterator[str]:
    allowed = LAYERS[: LAYERS.index(path.partition("/")[0]) + 1]
    for line, module in imports(tree):
        package = module.partition(".")[0]
        if package in LAYERS and package not in allowed:
            yield f"{path}:{line} imports {package}"


def strayed_libraries(path: str, tree: ast.AST) -> Iterator[str]:
    for line, module in imports(tree):
        library = module.partition(".")[0]
        if path not in HOMES.get(library, {path}):
            yield f"{path}:{line} imports {library}"


def time_dice_and_environment(path: str, tree: ast.AST) -> Iterator[str]:
    called = {id(node.func): bool(node.args or node.keywords) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node, name in names(tree):
        thrown = name.startswith(DICE)
        if name == "numpy.random.default_rng":
            thrown = not called.get(id(node), False)  # unseeded
        elif name in DICE_TYPES:
            thrown = id(node) in called
        if path not in READERS.get(name, {path}) or (thrown and path not in CLOCK):
            yield f"{path}:{node.lineno} uses {name}"


def whole_trees_removed(path: str, tree: ast.AST) -> Iterator[str]:
    yield from (f"{path}:{node.lineno} uses rmtree" for node, name in names(tree) if name == "shutil.rmtree")


def prints(path: str, tree: ast.AST) -> Iterator[str]:
    if path.startswith("daemon/cli") or path == "daemon/__main__.py":  # they speak to a person at a terminal
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{path}:{node.lineno} prints"


def drawers(path: str, _tree: ast.AST) -> Iterator[str]:
    if Path(path).stem in DRAWERS:
        yield f"{path} is named for nothing"


def loose_commands(path: str, tree: ast.AST) -> Iterator[str]:
    """Command lines put together by hand: a caller's word in them could be another command, or another flag."""
    if path in AT_A_TERMINAL:
        return
    for node in ast.walk(tree):
        begun = False
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if begun and isinstance(part, ast.FormattedValue):
                yield f"{path}:{node.lineno} writes a word into a command"
                break
            begun = begun or (isinstance(part, ast.Constant) and "dreamctl " in str(part.value))


SOURCE_RULES = [
    upward_imports, strayed_libraries, time_dice_and_environment, whole_trees_removed, prints, drawers, loose_commands,
]  # fmt: skip


def patches(path: str, tree: ast.AST) -> Iterator[str]:
    for line, module in imports(tree):
        if module.startswith("unittest.mock") or module.partition(".")[0] == "mock":
            yield f"{path}:{line} imports {module}"
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="monkeypatch"), attr="setattr"):
                yield f"{path}:{node.lineno} uses monkeypatch.setattr"
            case ast.arg(arg="mocker"):
                yield f"{path}:{node.lineno} uses mocker"


def module_files(name: str) -> set[str]:
    """The files that importing `name` may run: its own, if it is a module, and those of the packages above it."""
    parts = name.split(".")
    stems = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return {f"{stem}{ending}" for stem in stems for ending in (".py", "/__init__.py")}


def beyond_the_standard_library(sources: Mapping[str, str], entries: tuple[str, ...] = THIN) -> Iterator[str]:
    """What the thin clients import beyond the standard library, through any module of `daemon`."""
    waiting, seen = [entry for entry in entries if entry in sources], set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for line, module in imports(ast.parse(sources[path])):
            top = module.partition(".")[0]
            if top == "daemon":
                waiting += sorted(module_files(module) & sources.keys() - seen)
            elif top not in sys.stdlib_module_names and EXTRAS.get(path) != top:
                yield f"{path}:{line} imports {top}"


def private_addresses(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if ADDRESS.search(line):
            yield f"{path}:{number} names a package index"
        if MACHINE_PATH.search(line):
            yield f"{path}:{number} names a folder of one machine"


def sources(*folders: str) -> dict[str, str]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize("rule", SOURCE_RULES)
def test_the_source_keeps_the_rule(rule) -> None:
    found = [fault for path, text in sources(*LAYERS).items() for fault in rule(path, ast.parse(text))]

    assert found == []


def test_the_thin_clients_import_only_the_standard_library() -> None:
    assert list(beyond_the_standard_library(sources("daemon"))) == []


def test_tests_build_fakes_and_patch_nothing() -> None:
    found = [fault for path, text in sources("tests").items() for fault in patches(path, ast.parse(text))]

    assert found == []


def test_no_committed_file_names_a_package_index_or_a_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    # Whoever runs the tests need not own the checkout.
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = []
    for path in filter(None, listing.stdout.split("\0")):
        content = (ROOT / path).read_bytes() if (ROOT / path).is_file() else b""
        if b"\0" not in content:
            found += private_addresses(path, content.decode("utf-8", errors="replace"))

    assert found == []


def test_the_three_packages_lie_side_by_side_in_this_tree() -> None:
    """PyPI has other packages of these names, which would shadow ours."""
    assert {Path(package.__file__ or "").parent.parent for package in (daemon, jobs, storage)} == {ROOT}


PLANTED = [
    (upward_imports, "storage/recall.py", "from jobs.table import NIGHT", "imports jobs"),
    (upward_imports, "storage/recall.py", "def f():\n    import daemon.clock", "imports daemon"),
    (upward_imports, "jobs/decay.py", "from daemon import clock", "imports daemon"),
    (strayed_libraries, "storage/recall.py", "import qdrant_edge", "imports qdrant_edge"),
    (strayed_libraries, "storage/edge.py", "from qdrant_client.models import Filter", "imports qdrant_client"),
    (strayed_libraries, "jobs/link.py", "def f():\n    import litellm", "imports litellm"),
    (strayed_libraries, "daemon/app.py", 'import importlib\nimportlib.import_module("litellm")', "imports litellm"),
    (strayed_libraries, "daemon/config.py", "from apscheduler.triggers.cron import CronTrigger", "imports apscheduler"),
    (strayed_libraries, "daemon/problem.py", "from aiohttp import web", "imports aiohttp"),
    (strayed_libraries, "jobs/decay.py", "import prometheus_client as p", "imports prometheus_client"),
    (strayed_libraries, "storage/records.py", "import sqlite3", "imports sqlite3"),
    (strayed_libraries, "daemon/cli.py", "def f():\n    import matplotlib.figure", "imports matplotlib"),
    (time_dice_and_environment, "jobs/decay.py", "import time\nnow = time.time()", "uses time.time"),
    (time_dice_and_environment, "jobs/decay.py", "from time import time\nnow = time()", "uses time.time"),
    (time_dice_and_environment, "jobs/decay.py", "import time as t\nt.monotonic()", "uses time.monotonic"),
    (
        time_dice_and_environment,
        "storage/a.py",
        "from datetime import datetime as d\nd.now()",
        "uses datetime.datetime.now",
    ),
    (time_dice_and_environment, "storage/a.py", "import datetime\ndatetime.date.today()", "uses datetime.date.today"),
    (time_dice_and_environment, "jobs/dream.py", "import random\nrandom.shuffle(x)", "uses random.shuffle"),
    (time_dice_and_environment, "jobs/dream.py", "import random\nr = random.Random(1)", "uses random.Random"),
    (time_dice_and_environment, "jobs/dream.py", "import numpy as np\nnp.random.rand()", "uses numpy.random.rand"),
    (time_dice_and_environment, "jobs/dream.py", "import numpy as np\nnp.random.default_rng()", "default_rng"),
    (time_dice_and_environment, "storage/a.py", "from uuid import uuid4\nuuid4()", "uses uuid.uuid4"),
    (time_dice_and_environment, "storage/a.py", "import secrets\nsecrets.token_hex()", "uses secrets.token_hex"),
    (time_dice_and_environment, "daemon/log.py", "import os\nos.environ['X']", "uses os.environ"),
    (time_dice_and_environment, "daemon/cli.py", "import time\ntime.time()", "uses time.time"),
    (whole_trees_removed, "storage/edge.py", "from shutil import rmtree\nrmtree(path)", "uses rmtree"),
    (prints, "jobs/decay.py", "print('x')", "prints"),
    (drawers, "storage/utils.py", "", "is named for nothing"),
    (loose_commands, "storage/facts.py", 'hint = f"dreamctl get {memory}"', "writes a word into a command"),
    (loose_commands, "storage/facts.py", 'f("x", hint=f"Stop, or: dreamctl list --scope {a!r}")', "writes a word"),
    (patches, "tests/test_a.py", "from unittest.mock import MagicMock", "imports unittest.mock"),
    (patches, "tests/test_a.py", "from unittest import mock", "imports unittest.mock"),
    (patches, "tests/test_a.py", "def test(monkeypatch):\n    monkeypatch.setattr(a, 'b', 1)", "monkeypatch.setattr"),
    (patches, "tests/test_a.py", "def test_a(mocker): ...", "uses mocker"),
]


@pytest.mark.parametrize(("rule", "path", "text", "fault"), PLANTED)
def test_the_rule_sees_a_planted_fault(rule, path: str, text: str, fault: str) -> None:
    found = list(rule(path, ast.parse(text)))

    assert found
    assert all(line.startswith(path) for line in found)
    assert fault in found[0]


HARMLESS = [
    (upward_imports, "jobs/decay.py", "from storage.model import Memory\nimport jobs.context"),
    (upward_imports, "daemon/app.py", "import jobs.table, storage.store"),
    (strayed_libraries, "storage/server.py", "from qdrant_client import QdrantClient"),
    (time_dice_and_environment, "daemon/clock.py", "import time, random\ntime.time(); random.Random(3)"),
    (time_dice_and_environment, "jobs/dream.py", "import random\ndef plan(rng: random.Random): rng.shuffle([])"),
    (time_dice_and_environment, "storage/a.py", "import numpy as np\nnp.random.default_rng(7)"),
    (time_dice_and_environment, "storage/a.py", "import uuid\nuuid.uuid5(space, 'x')"),
    (time_dice_and_environment, "storage/a.py", "def f(time): return time.time()"),
    (time_dice_and_environment, "daemon/cli.py", "import os\nos.environ.get('X')"),
    (time_dice_and_environment, "daemon/scheduler.py", "import time\ntime.monotonic()"),
    (prints, "daemon/cli.py", "print('x')"),
    (loose_commands, "daemon/cli.py", 'f"usage: dreamctl {verb}"'),
    (loose_commands, "storage/facts.py", 'f"{command(verb, memory)} shows {count}; or dreamctl list"'),
    (patches, "tests/test_a.py", "def test_a(monkeypatch): monkeypatch.setenv('A', 'b'); setattr(a, 'mock', 1)"),
]


@pytest.mark.parametrize(("rule", "path", "text"), HARMLESS)
def test_the_rule_lets_the_harmless_pass(rule, path: str, text: str) -> None:
    assert list(rule(path, ast.parse(text))) == []


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ({"daemon/cli.py": "import numpy"}, "daemon/cli.py:1 imports numpy"),
        ({"daemon/client.py": "from storage.errors import Invalid"}, "daemon/client.py:1 imports storage"),
        (
            {"daemon/cli.py": "from daemon import table", "daemon/table.py": "\nimport pydantic"},
            "daemon/table.py:2 imports pydantic",
        ),
        ({"daemon/cli.py": "import json", "daemon/__init__.py": "import x"}, "daemon/__init__.py:1 imports x"),
        (
            {"daemon/cli.py": "from daemon import plot", "daemon/plot.py": "import matplotlib, numpy"},
            "daemon/plot.py:1 imports numpy",
        ),
    ],
)
def test_a_thin_client_is_seen_to_import_more(tree: dict[str, str], fault: str) -> None:
    found = list(beyond_the_standard_library(tree))

    assert len(found) == 1
    assert found[0].endswith(fault)


def test_modules_which_the_thin_clients_leave_alone_may_import_anything() -> None:
    tree = {
        "daemon/cli.py": "import json\nfrom daemon import client",
        "daemon/client.py": "",
        "daemon/rpc.py": "import x",
    }

    assert list(beyond_the_standard_library(tree)) == []


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("--index" + "-url https://pypi.example.org/x", True),
        ("-f https://pypi.example.org" + "/simple/", True),
        ("--no-emit-index" + "-url", False),
        ("see https://example.org/simplest", False),
        ("cd /wo" + "rk/main", True),
        ('path = "/ro' + 'ot/x"', True),
        ("# via -r /ho" + "me/alice/requirements.txt", True),
        ("/home/*/.config and $" + "{HOME}/work/x", False),
        ("docs/work/plan and https://example.org/root/x", False),
    ],
)
def test_addresses_and_machine_paths_are_told_from_other_text(text: str, *, seen: bool) -> None:
    assert bool(list(private_addresses("README.md", text))) is seen
