"""What learners' code does to graders, on purpose or not, in every kind of sandbox this machine has.

One row per attack. Each asserts the cause named, that the tasks before and after are still answered, that nothing is
left running, and that nobody waited longer than the limit and two seconds. Rows guard the reports listed in
nbgrader #1379 #1904 #427 #1429 #917 #1083 #1682 #174 #978 #874 #723 #1908 #1858, otter #469 #138 #383 #723 #419 #890,
PrairieLearn #5083, grader-service #169.
"""

# ruff: noqa: E501  one case, one line: a table is read by its rows
from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from boxes import CALL_LIMIT, CELL_LIMIT, KINDS, notebook_around, run, small_lab

from autograder import spec
from autograder.run import Answer, Died, Missing, Raised
from autograder.sandbox import reach

ROOT = Path(__file__).resolve().parents[2]
SLACK = 2.0


@dataclass(frozen=True)
class Attack:
    """`cell` defines f; `causes` are the causes that name what happens, "" for a call that is answered with `value`."""

    name: str
    cell: str
    causes: str
    value: object = None


def body(lines: str) -> str:
    """A cell whose f does `lines` when called, and returns its argument if it gets that far."""
    return "def f(x):\n" + "\n".join("    " + line for line in lines.strip("\n").splitlines()) + "\n    return x"


DEFINES = "\ndef f(x):\n    return x"
FOREVER = "while True:\n    pass"
IGNORING = "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"

ATTACKS = [
    # Time.
    Attack("loop", body(FOREVER), "time"),
    Attack("loop-ignoring-signals", body(IGNORING + FOREVER), "time"),
    Attack("loop-at-import", FOREVER + DEFINES, "time"),
    Attack("loop-at-import-ignoring-signals", IGNORING + FOREVER + DEFINES, "time"),
    Attack("loop-catching-everything", body("while True:\n    try:\n        while True: pass\n    except BaseException: pass"), "time"),
    Attack("sleep", body("import time; time.sleep(1000)"), "time"),
    Attack("sleep-at-import", "import time; time.sleep(1000)" + DEFINES, "time"),
    Attack("huge-power", body("return 7 ** 10 ** 9"), "time memory"),
    Attack("regular-expression", body("import re; re.match('(a+)+$', 'a' * 60 + 'b')"), "time"),
    Attack("lock-never-released", body("import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"), "time"),
    Attack("await-forever", "import asyncio\nawait asyncio.sleep(1000)" + DEFINES, "time"),
    Attack("stopped", body("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"), "time"),
    Attack("never-ending-generator", body("return (i for i in iter(int, 1))"), "value"),
    Attack("never-ending-list", "class L(list):\n    def __iter__(self):\n        while True: yield 1\n" + body("return L([1, 2])"), "", [1, 2]),
    # Exits and crashes.
    Attack("os-exit", body("import os; os._exit(0)"), "exit"),
    Attack("os-exit-3", body("import os; os._exit(3)"), "exit"),
    Attack("os-exit-at-import", "import os; os._exit(0)" + DEFINES, "exit"),
    Attack("sys-exit", body("import sys; sys.exit()"), "exit"),
    Attack("sys-exit-at-import", "import sys; sys.exit(1)" + DEFINES, "exit"),
    Attack("quit", body("quit()"), "exit"),
    Attack("raise-system-exit-text", body("raise SystemExit('full marks')"), "exit"),
    Attack("segfault", body("import ctypes; ctypes.string_at(0)"), "signal"),
    Attack("segfault-at-import", "import ctypes; ctypes.string_at(0)" + DEFINES, "signal"),
    Attack("abort", body("import os; os.abort()"), "signal"),
    Attack("kill-itself", body("import os; os.kill(os.getpid(), 9)"), "signal"),
    Attack("alarm", body("import signal, time; signal.signal(signal.SIGALRM, signal.SIG_DFL); signal.alarm(1); time.sleep(5)"), "signal time"),
    Attack("alarm-left-behind", "import signal; signal.signal(signal.SIGALRM, signal.SIG_DFL); signal.setitimer(signal.ITIMER_REAL, 0.3)" + DEFINES, ""),
    Attack("kill-everything", body("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass"), ""),
    Attack("kill-parent", body("import os\ntry: os.kill(os.getppid() or 1, 9)\nexcept OSError: pass"), ""),
    Attack("kill-group", body("import os\nos.killpg(0, 9)"), "signal exception processes"),
    Attack("recursion", body("return f(x)"), "exception"),
    Attack("recursion-without-limit", body("import sys; sys.setrecursionlimit(10 ** 9)\nreturn f(x)"), "signal memory exception time"),
    Attack("exec-another-program", body("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])"), "exit protocol files"),
    Attack("exit-at-exit", "import atexit, os; atexit.register(os._exit, 3)" + DEFINES, ""),
    Attack("exit-when-collected", "class A:\n    def __del__(self):\n        import os; os._exit(3)\n" + body("return A()"), "exit"),
    Attack("collector-callback", "import gc\n" + body("gc.callbacks.append(lambda *_: 1 / 0); gc.collect()"), ""),
    Attack("trace-function", body("import sys; sys.settrace(lambda *_: 1 / 0)"), "exception exit protocol value"),
    Attack("profile-exits", body("import sys, os; sys.setprofile(lambda *_: os._exit(4))"), "exit"),
    Attack("thread-exits-later", "import threading, os, time\ndef later():\n    time.sleep(0.2); os._exit(5)\n" + body("threading.Thread(target=later).start()"), ""),
    Attack("thread-exits-between-cells", "import threading, os, time\nthreading.Thread(target=lambda: (time.sleep(0.1), os._exit(5))).start()\ntime.sleep(0.05)" + DEFINES, ""),
    Attack("virtual-timer-left-behind", "import signal; signal.setitimer(signal.ITIMER_PROF, 0.01)" + DEFINES, ""),
    Attack("trace-left-behind", "import sys, os; sys.settrace(lambda *_: os._exit(4))" + DEFINES, "exit"),
    Attack("profile-left-behind", "import sys, os" + DEFINES + "\nsys.setprofile(lambda frame, *_: os._exit(4) if frame.f_code.co_name == 'after' else None)", ""),
    Attack("recursion-limit-of-nothing", "import sys; sys.setrecursionlimit(30)" + DEFINES, "exception exit "),
    Attack("profile-set-in-a-call", body("import sys, os; sys.setprofile(lambda frame, *_: os._exit(4) if frame.f_code.co_name in ('<module>', 'after') else None)"), ""),
    Attack("wire-closed-after-the-answer", "import gc, os\nclass A:\n    def __del__(self): os.close(3)\ndef f(x):\n    a = A(); a.a = a\n    return x", ""),
    Attack("wire-closed-at-import", "import os; os.close(3)" + DEFINES, "exit protocol"),
    Attack("wire-unblocked-at-import", "import os; os.set_blocking(3, False)" + DEFINES, ""),
    Attack("junk-on-the-wire-at-import", "import threading, os, time\ndef junk():\n    time.sleep(0.02); os.write(4, b'abc')\nthreading.Thread(target=junk).start()" + DEFINES, "protocol time "),
    Attack("thread-left-looping", "import threading\ndef spin():\n    while True: pass\n" + body("threading.Thread(target=spin, daemon=True).start()"), ""),
    Attack("many-threads", body("import threading, time\nfor _ in range(10 ** 6): threading.Thread(target=time.sleep, args=(99,)).start()"), "exception processes memory time"),
    # Memory.
    Attack("40-gb-at-once", body("return np.ones(5 * 10 ** 9)"), "memory"),
    Attack("40-gb-bytes", body("return bytearray(40 << 30)"), "memory"),
    Attack("40-gb-creeping", body("kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20))"), "memory"),
    Attack("40-gb-creeping-at-import", "kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20))" + DEFINES, "memory"),
    Attack("small-objects-creeping", "kept = []\n" + body("while True: kept.append([{}, {}, {}, {}])").replace("CALL", ""), "memory time"),
    Attack("memory-errors-caught", body("kept = []\nwhile True:\n    try:\n        while True: kept.append(bytearray(1 << 20))\n    except MemoryError: pass"), "memory time"),
    Attack("scratch-filled", body("for i in range(100):\n    with open(f'{__import__(\"tempfile\").gettempdir()}/{i}', 'wb') as h:\n        for _ in range(16): h.write(bytes(1 << 20))"), "files"),
    Attack("scratch-filled-by-one", body("with open(f'{__import__(\"tempfile\").gettempdir()}/a', 'wb') as h:\n    for _ in range(200): h.write(bytes(1 << 20))"), "files"),
    Attack("memory-file", body("import os; h = os.memfd_create('m'); [os.write(h, bytes(1 << 20)) for _ in range(4000)]"), "exception files"),
    # Processes.
    Attack("fork", body("import os; os.fork()"), "processes"),
    Attack("fork-bomb", body("import os\nwhile True: os.fork()"), "processes"),
    Attack("fork-bomb-at-import", "import os\nwhile True: os.fork()" + DEFINES, "processes"),
    Attack("fork-bomb-catching", body("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"), "time"),
    Attack("subprocess", body("import subprocess; subprocess.run(['/bin/sh', '-c', 'true'])"), "processes"),
    Attack("spawn", body("import os; os.posix_spawn('/usr/bin/env', ['env'], {})"), "processes"),
    Attack("system", body("import os\nif os.system('true') != 0: raise OSError('no')"), "processes"),
    Attack("multiprocessing", body("import multiprocessing as m; p = m.get_context('fork').Process(target=print); p.start()"), "processes"),
    Attack("setsid-child", body("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)"), "processes"),
    Attack("namespace", body("import ctypes\nreturn ctypes.CDLL(None).unshare(0x10000000)"), "", -1),
    Attack("trace-process", body("import ctypes\nreturn ctypes.CDLL(None).ptrace(0, 0, 0, 0)"), "", -1),
    Attack("shared-memory-segment", body("import ctypes\nreturn ctypes.CDLL(None).shmget(0, 1 << 20, 0o1600)"), "", -1),
    Attack("limits-of-others", body("import resource, os\nresource.prlimit(1, resource.RLIMIT_CPU, (1, 1))"), "exception"),
    # What is printed.
    Attack("200-mb-one-line", body("print('a' * 200_000_000)"), ""),
    Attack("200-mb-many-lines", body("for _ in range(200): print('\\n'.join(['a' * 99] * 10_000))"), ""),
    Attack("a-million-prints", body("for _ in range(1_000_000): print('a', end='')").replace("1_000_000", "500_000"), ""),
    Attack("200-mb-to-the-descriptor", body("import os\nfor _ in range(200): os.write(1, b'a' * 1_000_000); os.write(2, b'b' * 1_000_000)"), ""),
    Attack("warns", body("import warnings; warnings.warn('careful'); import sys; print('loud', file=sys.stderr)"), ""),
    Attack("logs", body("import logging; logging.warning('careful')"), ""),
    Attack("closes-stdout", body("import sys; sys.stdout.close(); sys.stderr = None; sys.stdout = None"), ""),
    Attack("print-rebound", "print = None" + DEFINES, ""),
    # Input.
    Attack("input", body("input('? ')"), "input"),
    Attack("input-at-import", "n = int(input())" + DEFINES, "input"),
    Attack("stdin", body("import sys; sys.stdin.readline()"), "input"),
    Attack("stdin-loop", body("import sys\nfor line in sys.stdin: pass"), "input"),
    Attack("descriptor-0", body("import os; return os.read(0, 10).decode()"), "", ""),
    Attack("debugger", body("breakpoint()"), "input exception exit"),
    # The notebook itself.
    Attack("syntax-error", "def f(x)\n    return x", "syntax"),
    Attack("indentation-error", "def f(x):\nreturn x", "syntax"),
    Attack("null-byte", "def f(x):\n    return '\0'", "syntax"),
    Attack("nested-parentheses", "f = " + "(" * 5000 + ")" * 5000, "syntax"),
    Attack("deep-expression", "f = " + "-" * 100_000 + "1", "syntax"),
    Attack("missing-function", "g = 1", "missing"),
    Attack("deleted-cell", "", "missing"),
    Attack("not-a-function", "f = 3", "exception"),
    Attack("fails-before-defining", "1 / 0" + DEFINES, "exception"),
    Attack("shell-escape", "!touch /tmp/here" + DEFINES, "processes"),
    Attack("shell-cell", "%%bash\ndef f(x): pass", "processes"),
    # Lies.
    Attack("patched-numpy", "import numpy\nnumpy.allclose = numpy.array_equal = lambda *_, **__: True\nnumpy.testing.assert_allclose = lambda *_, **__: None\nnumpy.asarray = numpy.array = lambda *_, **__: 1 / 0" + DEFINES, ""),
    Attack("patched-numpy-types", "import numpy\nnumpy.ndarray = numpy.generic = numpy.dtype = None" + DEFINES, ""),
    Attack("patched-builtins", "import builtins\nbuiltins.isinstance = lambda *_: True\nbuiltins.abs = None" + DEFINES, "value exception protocol exit memory time "),
    Attack("patched-getattr", "import builtins\nbuiltins.getattr = lambda *_: 1 / 0" + DEFINES, "protocol"),
    Attack("patched-type-and-len", "import builtins\nbuiltins.type = lambda *_: int\nbuiltins.len = lambda *_: 0" + DEFINES, "protocol exit"),
    Attack("emptied-builtins", "import builtins\nbuiltins.__dict__.clear()" + DEFINES, "protocol exit"),
    Attack("patched-getattr-in-a-call", body("import builtins\nbuiltins.getattr = lambda *_: 1 / 0"), ""),
    Attack("patched-unittest", "import unittest\nunittest.TestCase.assertEqual = lambda *_: None" + DEFINES, ""),
    Attack("always-equal", "class E:\n    __eq__ = lambda *_: True\n    __array__ = lambda *_, **__: np.ones(3)\n" + body("return E()"), "value"),
    Attack("always-equal-number", "class E(float):\n    __eq__ = lambda *_: True\n    __sub__ = __rsub__ = lambda *_: 0.0\n" + body("return E(9)"), "", 9.0),
    Attack("always-equal-int", "class E(int):\n    __eq__ = lambda *_: True\n    __int__ = __index__ = __add__ = lambda *_: 3\n" + body("return E(9)"), "", 9),
    Attack("always-equal-text", "class E(str):\n    __eq__ = lambda *_: True\n    __str__ = lambda _: 'right'\n" + body("return E('wrong')"), "", "wrong"),
    Attack("object-array", body("return np.array([object()], dtype=object)"), "value"),
    Attack("not-data", body("return {1: 2}"), "value"),
    Attack("contains-itself", body("a = []; a.append(a); return a"), "value"),
    Attack("huge-integer", body("return 1 << 10 ** 6"), "value"),
    Attack("huge-array", body("return np.zeros(10 ** 7)"), "value memory"),
    Attack("huge-broadcast", body("return np.broadcast_to(1.0, (10 ** 6, 10 ** 6))"), "value memory"),
    Attack("huge-text", body("return 'a' * (50 << 20)"), "value"),
    Attack("huge-list", body("return [[]] * 3_000_000"), "value memory time"),
    Attack("half-a-surrogate", body("return '\\ud800'"), "", "?"),
    # The wire.
    Attack("forged-frame", body("import os, struct, msgpack\nb = msgpack.packb({'value': 3, 'id': 1, 'printed': '', 'cut': False, 'threads': 0}); os.write(4, struct.pack('>I', len(b)) + b)"), "protocol"),
    Attack("half-a-frame", body("import os, time; os.write(4, b'\\0\\0\\1\\0abc')"), "protocol time"),
    Attack("giant-frame", body("import os; os.write(4, b'\\xff\\xff\\xff\\xff')"), "protocol"),
    Attack("noise", body("import os; os.write(4, b'\\xff' + os.urandom(99_999))"), "protocol"),
    Attack("not-msgpack", body("import os; os.write(4, b'\\0\\0\\0\\1\\xc1')"), "protocol"),
    Attack("nested-frame", body("import os; os.write(4, b'\\0\\1\\0\\0' + b'\\x91' * 65536)"), "protocol"),
    Attack("frames-from-a-thread", "import threading, os\ndef spam():\n    while True: os.write(4, b'\\0\\0\\0\\1\\x01')\n" + body("threading.Thread(target=spam, daemon=True).start()\nwhile True: pass"), "protocol"),
    Attack("closes-the-wire", body("import os; os.closerange(0, 100)"), "exit protocol"),
    Attack("closes-the-wire-and-stays", body("import os, time; os.closerange(0, 100); time.sleep(100)"), "protocol"),
    Attack("reads-the-wire", body("import os; os.read(3, 100)"), "time"),
    Attack("swaps-the-wire", body("import os; os.dup2(os.open('/dev/null', os.O_RDWR), 4)"), "protocol"),
    # Exceptions that misbehave.
    Attack("str-raises", "class E(Exception):\n    def __str__(self): raise ValueError\n" + body("raise E"), "exception"),
    Attack("str-loops", "class E(Exception):\n    def __str__(self):\n        while True: pass\n" + body("raise E"), "exception"),
    Attack("str-is-no-text", "class E(Exception):\n    def __str__(self): return 3\n" + body("raise E"), "exception"),
    Attack("str-exits", "class E(Exception):\n    def __str__(self):\n        import sys; sys.exit()\n" + body("raise E"), "exception"),
    Attack("repr-raises", "class E(Exception):\n    def __repr__(self): 1 / 0\n" + body("raise E(E())"), "exception"),
    Attack("message-of-100-mb", body("raise ValueError('a' * 100_000_000)"), "exception"),
    Attack("name-of-1-mb", body("raise type('E' * 1_000_000, (Exception,), {})"), "exception"),
    Attack("surrogate-message", body("raise ValueError('\\ud800')"), "exception"),
    Attack("no-class", "class M(type):\n    __name__ = property(lambda _: 1 / 0)\nclass E(Exception, metaclass=M): pass\n" + body("raise E"), "exception"),
    Attack("traceback-hidden", "class E(Exception):\n    __traceback__ = property(lambda _: 1 / 0)\n" + body("raise E"), "exception"),
    Attack("base-exception", "class E(BaseException): pass\n" + body("raise E"), "exception"),
    Attack("keyboard-interrupt", body("raise KeyboardInterrupt"), "exception"),
    Attack("generator-exit", body("raise GeneratorExit"), "exception"),
    Attack("exception-group", body("raise ExceptionGroup('many', [ValueError(i) for i in range(100_000)])"), "exception"),
    Attack("chain-of-causes", body("e = ValueError()\nfor _ in range(100_000):\n    n = ValueError(); n.__cause__ = e; e = n\nraise e"), "exception signal"),
    # Files and network.
    Attack("reads-the-spec", body(f"return open({str(Path(spec.__file__))!r}).read()[:20]"), "files"),
    Attack("imports-the-spec", body("import autograder.specs"), "exception"),
    Attack("imports-the-grader", body("import sys; sys.path.insert(0, ROOT); del sys.modules['autograder']; import autograder.spec".replace("ROOT", repr(str(ROOT)))), "exception files"),
    Attack("imports-torch", body("import torch"), "exception"),
    Attack("reads-shadow", body("return open('/etc/shadow').read()"), "files"),
    Attack("lists-home", body("import os; return os.listdir('/root') + os.listdir('/home')"), "files"),
    Attack("lists-processes", body("import os; return os.listdir('/proc')"), "files"),
    Attack("own-memory", body("open('/proc/self/mem', 'r+b')"), "files"),
    Attack("follows-a-link", body(f"import os, tempfile\nos.symlink({str(Path(spec.__file__))!r}, tempfile.gettempdir() + '/link'); return open(tempfile.gettempdir() + '/link').read()[:20]"), "files"),
    Attack("writes-outside", body("open('/var/tmp/autograder-was-here', 'w')"), "files"),
    Attack("writes-to-the-packages", body("open(np.__file__, 'a')"), "files"),
    Attack("writes-to-the-library", body("import os; open(os.__file__, 'a')"), "files"),
    Attack("writes-to-devices", body("open('/dev/full-disk', 'w')"), "files"),
    Attack("removes-packages", body("import os; os.remove(np.__file__)"), "files"),
    Attack("connects", body("import socket; socket.create_connection(('127.0.0.1', 22), 1)"), "network"),
    Attack("looks-up-a-name", body("import socket; socket.getaddrinfo('localhost.example', 80)"), "network"),
    Attack("opens-a-socket", body("import socket; socket.socket(socket.AF_UNIX)"), "network"),
    Attack("datagram-pair", body("import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"), "network"),
    Attack("downloads", body("import urllib.request; urllib.request.urlopen('http://127.0.0.1/')"), "network"),
]  # fmt: skip


# One of each kind is tried in the inner loop, and as an ordinary user; all of them in CI.
_QUICK = "os-exit forged-frame patched-numpy reads-the-spec syntax-error"
QUICK = set(_QUICK.split())
assert {attack.name for attack in ATTACKS} >= QUICK
ROWS = [pytest.param(each, id=each.name, marks=() if each.name in QUICK else pytest.mark.slow) for each in ATTACKS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attack", ROWS)
def test_attack(attack: Attack, kind: str) -> None:
    seen = run(notebook_around(attack.cell), kind)
    outcome = seen.outcomes["attacked"]
    cause = "" if isinstance(outcome, Answer) else outcome.cause
    allowed = attack.causes.split(" ")
    assert cause in allowed, outcome
    if isinstance(outcome, Answer) and attack.causes == "":
        expected = 3 if attack.value is None else attack.value
        assert outcome.value == expected, outcome
        assert type(outcome.value) is type(expected), outcome
    elif isinstance(outcome, Raised | Died | Missing):
        words = (
            outcome.because
            if isinstance(outcome, Missing)
            else outcome.message
            if isinstance(outcome, Raised)
            else outcome.detail
        )
        assert len(words) < 5000
    assert seen.outcomes["before"] == Answer(4), seen.outcomes["before"]
    assert seen.outcomes["after"] == Answer(2), seen.outcomes["after"]
    assert seen.left == []
    # A call may wait for the cell that defines it, once, and then for itself.
    assert seen.seconds["attacked"] < (CELL_LIMIT if isinstance(outcome, Missing) else CALL_LIMIT) + SLACK, seen.seconds
    assert not os.path.exists("/var/tmp/autograder-was-here")


@pytest.mark.parametrize("kind", KINDS)
def test_lying_arrays_arrive_as_what_they_hold(kind: str) -> None:
    lie = (
        "class L(np.ndarray):\n    __eq__ = __lt__ = lambda *_: True\n    __sub__ = __rsub__ = lambda s, o: np.zeros(s.shape)\n"
        "    shape = property(lambda _: (9,))\n    __array_ufunc__ = lambda *_, **__: True\n    tobytes = lambda _: b''\n"
        "    __array_priority__ = 1e9\n"
    )
    outcome = run(notebook_around(lie + "def f(x):\n    return np.arange(4.0).view(L)"), kind).outcomes["attacked"]
    assert isinstance(outcome, Answer)
    assert type(outcome.value).__name__ == "ndarray"
    assert outcome.value.shape == (4,)
    assert outcome.value.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_registered_input_transformers_change_nothing(kind: str) -> None:
    lab = small_lab(packages=("numpy", "ipython"), cell_limit=15.0)
    cells = notebook_around(
        "%timeit -n1 -r1 1\nget_ipython().input_transformers_cleanup.append(lambda lines: ['raise SystemExit'])\n"
        "get_ipython().input_transformers_post.append(lambda lines: ['raise SystemExit'])\nimport ast\n"
        "class T(ast.NodeTransformer):\n    def visit_BinOp(self, node): return ast.Constant(42)\n"
        "get_ipython().ast_transformers.append(T())\ndef f(x):\n    return x"
    )
    seen = run(cells, kind, lab)
    assert [seen.outcomes[name] for name in ("before", "attacked", "after")] == [Answer(4), Answer(3), Answer(2)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attack", ["import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                                    "import os, time\nif os.fork() == 0:\n    try: os.setsid()\n    except OSError: pass\n    if os.fork() == 0:\n        while True: pass\n    os._exit(0)\ntime.sleep(0.1)"],
                         ids=["fork-bomb", "orphan"])  # fmt: skip
def test_where_processes_are_allowed_none_is_left(kind: str, attack: str) -> None:
    seen = run(notebook_around(body(attack)), kind, small_lab(processes=8))
    assert seen.outcomes["before"] == Answer(4), seen.outcomes
    assert seen.outcomes["after"] == Answer(2), seen.outcomes
    assert seen.left == []
    assert seen.seconds["attacked"] < CALL_LIMIT + SLACK


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_all_processes_together_is_limited(kind: str) -> None:
    eat = "import os, time\nfor _ in range(7):\n    if os.fork() == 0:\n        kept = b'x' * (150 << 20)\n        time.sleep(60)\ntime.sleep(60)"
    seen = run(notebook_around(body(eat)), kind, small_lab(processes=8))
    outcome = seen.outcomes["attacked"]
    assert isinstance(outcome, Died), outcome
    assert outcome.cause in ("memory", "time"), outcome
    assert seen.left == []
    assert seen.outcomes["after"] == Answer(2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_grader_that_is_killed_leaves_nothing(kind: str) -> None:
    code = (
        "import sys, time\nfrom tests.autograder.boxes import *\n"
        f"box = sandbox.open(small_lab(), kind={kind!r})\nbox.request({{'do': 'load', 'drivers': ''}}, timeout=20)\n"
        "print(box.uid, box._launcher.pid, flush=True)\nbox.request({'do': 'exec', 'cell': 1, 'code': 'while True: pass'}, timeout=60)"
    )
    grader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert grader.stdout is not None
    launcher = int(grader.stdout.readline().split()[1])
    time.sleep(0.2)
    grader.kill()
    grader.wait()
    grader.stdout.close()
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{launcher}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{launcher}")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")
def test_all_of_this_as_an_ordinary_user() -> None:
    uid = 61_000
    needed = [sys.base_prefix, sys.prefix, str(ROOT)]
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from autograder.sandbox import reach\n"
        f"reach.make_reachable({needed!r}); os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider', '-m', 'not slow', sys.argv[2]])"
    )
    environment = {**os.environ, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), __file__],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert reach.closed_ancestor(__file__) is None or done.stdout
