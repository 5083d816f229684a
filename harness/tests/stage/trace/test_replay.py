"""What is played from a trace is what a fork of a check's own finds, whatever modules do to each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from trees import by_a_trace_alone, told

from conftest import PYTHON, write
from masquerade import machines
from masquerade.stage import Check, Stage

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="calls cannot be told there")

SET = "import os\nos.environ['PKG_{0}'] = '{0}'\n"

#: Package files, then the modules that may be given back, and how many modules have findings.
CASES: dict[str, tuple[dict[str, str], set[str], int]] = {
    "a shared import": (
        {
            "heavy": SET.format("HEAVY"),
            "a": "import pkg.heavy\n",
            "b": "from pkg import heavy\n",
            "c": "from . import a\n",
        },
        set(),
        4,
    ),
    "an import inside a function, which was called before": (
        {
            "lazy": "def load():\n    import pkg.heavy\n    return pkg.heavy\n",
            "heavy": SET.format("HEAVY"),
            "a": "from pkg.lazy import load\nload()\n",
            "b": "from pkg.lazy import load\nload()\n",
        },
        set(),
        3,
    ),
    "a probe that keeps its answer in a variable": (
        {
            "probe": "import os\nN = None\ndef ask():\n    global N\n    if N is None:\n"
            "        os.environ['PKG_N'] = '1'\n        N = 1\n    return N\n",
            "a": "from pkg.probe import ask\nask()\n",
            "b": "import pkg.probe\n\n\nclass B:\n    n = pkg.probe.ask()\n",
            "c": "from pkg.probe import ask\n\n\ndef never():\n    ask()\n",
        },
        set(),
        2,
    ),
    "a probe that is cached": (
        {
            "probe": "import functools, os\n@functools.lru_cache\ndef ask(what):\n    os.environ[what] = '1'\n",
            "a": "from pkg.probe import ask\nask('A')\n",
            "b": "from pkg.probe import ask\nask('A')\nask('B')\n",
            "c": "from pkg.probe import ask\nask('B')\n",
        },
        set(),
        3,
    ),
    "a method that keeps its answer in its object": (
        {
            "probe": "import os\nclass Probe:\n    known = None\n    def ask(self):\n        if self.known is None:\n"
            "            os.environ['PKG_OBJECT'] = '1'\n            self.known = 1\n        return self.known\n"
            "one, other = Probe(), Probe()\n",
            "a": "from pkg.probe import one\none.ask()\n",
            "b": "from pkg.probe import one\none.ask()\n",
            "c": "from pkg.probe import other\nother.ask()\n",
        },
        set(),
        3,
    ),
    "a cached property": (
        {
            "probe": "import functools, os\nclass Probe:\n    @functools.cached_property\n    def known(self):\n"
            "        os.environ['PKG_PROPERTY'] = '1'\n        return 1\none = Probe()\n",
            "a": "from pkg.probe import one\none.known\n",
            "b": "from pkg.probe import one\nN = one.known\none.known = 2\nassert one.known == 2\n",
            "c": "import pkg.probe\n\n\ndef f(n=pkg.probe.one.known):\n    pass\n\n\ndel pkg.probe.one.known\n",
            "d": "import pkg.probe\nhasattr(pkg.probe.one, 'known')\n",
        },
        set(),
        4,
    ),
    "a closure": (
        {
            "probe": "import os\ndef once(name):\n    done = []\n    def ask():\n        if not done:\n"
            "            done.append(os.environ.update({name: '1'}))\n    return ask\nx, y = once('X'), once('Y')\n",
            "a": "from pkg.probe import x\nx()\n",
            "b": "from pkg.probe import x, y\ny()\nx()\n",
        },
        set(),
        2,
    ),
    "PEP 562": (
        {
            "platforms": "import importlib\n_now = None\ndef __getattr__(name):\n    global _now\n"
            "    if name != 'now':\n        raise AttributeError(name)\n    if _now is None:\n"
            "        _now = importlib.import_module('pkg.heavy')\n    return _now\n",
            "heavy": SET.format("HEAVY"),
            "a": "from pkg.platforms import now\n",
            "b": "from pkg.platforms import now\n",
            "c": "import pkg.platforms\nnow = pkg.platforms.now\n",
        },
        set(),
        4,
    ),
    "PEP 562, kept as an attribute": (
        {
            "lazy": "def __getattr__(name):\n    if name != 'heavy':\n        raise AttributeError(name)\n"
            "    import pkg.heavy\n    globals()[name] = pkg.heavy\n    return pkg.heavy\n",
            "heavy": SET.format("HEAVY"),
            "a": "from pkg.lazy import heavy\n",
            "b": "from pkg.lazy import heavy\n",
        },
        set(),
        3,
    ),
    "PEP 562, kept as an attribute, which is looked up": (
        {
            "lazy": "__all__ = ['heavy']\ndef __getattr__(name):\n    if name != 'heavy':\n"
            "        raise AttributeError(name)\n    import pkg.heavy\n    globals()[name] = pkg.heavy\n"
            "    return pkg.heavy\n",
            "heavy": SET.format("HEAVY") + "X = 1\n",
            "a": "import pkg.lazy\npkg.lazy.heavy\n",
            "b": "import pkg.lazy\n\n\nclass B:\n    x = [pkg.lazy.heavy.X]\n",
            "c": "import pkg.lazy as lazy\nlazy.heavy.X\n",
            "d": "from pkg.lazy import *\nassert heavy\n",
            "e": "from pkg.lazy import heavy\n",
            "f": "from pkg import lazy\n\n\ndef never():\n    return lazy.heavy\n",
            "g": "from pkg.lazy import *\n",
        },
        set(),
        7,
    ),
    "a lazy module in a module's place": (
        {
            "made": "import importlib, os, types\nclass Lazy(types.ModuleType):\n"
            "    def __init__(self, name, file, names):\n        super().__init__(name)\n        self._names = names\n"
            "        self.__file__, self.__path__ = file, [os.path.dirname(file)]\n    def __getattr__(self, name):\n"
            "        if name not in self._names:\n            raise AttributeError(name)\n"
            "        module = importlib.import_module('.' + self._names[name], self.__name__)\n"
            "        setattr(self, name, getattr(module, name))\n        return getattr(module, name)\n",
            "models/__init__": "import sys\nfrom pkg.made import Lazy\n"
            "made = Lazy(__name__, __file__, {'One': 'one', 'Two': 'two'})\nmade.__spec__ = __spec__\n"
            "sys.modules[__name__] = made\n",
            "models/one": SET.format("ONE") + "One = 1\n",
            "models/two": "from pkg.models import One\nTwo = 2\n",
            "a": "from pkg.models import One\n",
            "b": "import pkg.models\npkg.models.Two\n",
            "c": "from pkg.models import Two, One\n",
            "d": "import pkg.models as models\nmodels.Two\n",
            "e": "from pkg.models import One\n",
        },
        set(),
        7,
    ),
    "a submodule that others imported": (
        {
            "deep/__init__": "",
            "deep/heavy": SET.format("HEAVY") + "X = 1\n",
            "a": "import pkg.deep.heavy\n",
            "b": "import pkg\npkg.deep.heavy.X\n",
            "c": "import pkg.deep\n\n\nclass C:\n    x = pkg.deep.heavy.X\n",
            "d": "import pkg.a\npkg.deep.heavy.X\n",
            "e": "import pkg.deep\n\n\ndef never():\n    return pkg.deep.heavy.X\n",
            "f": "import pkg.deep.heavy as heavy\nheavy.X\n",
        },
        {"pkg.b", "pkg.c"},
        6,
    ),
    "a circle that one way in breaks": (
        {
            "one": "X = 1\nfrom pkg.two import Y\nZ = 2\n",
            "two": "from pkg.one import X\nY = 1\n",
            "three": "from pkg.four import W\nV = 1\n",
            "four": "from pkg.three import V\nW = 1\n",
            "five": "import os\ntry:\n    from pkg.six import S\nexcept ImportError:\n"
            "    os.environ['PKG_FIVE'] = '1'\nF = 1\n",
            "six": "from pkg.five import F\nS = 1\n",
        },
        {"pkg.two", "pkg.three", "pkg.four", "pkg.five", "pkg.six"},
        5,
    ),
    "a package that fails": (
        {
            "bad/__init__": SET.format("BAD") + "import pkg.bad.good\nimport nothing_of_that_name\n",
            "bad/good": SET.format("GOOD"),
            "bad/deep/__init__": "",
            "bad/deep/deeper": "",
            "a": "import pkg.bad.good\n",
            "z": "import pkg.bad.good\n",
            "b": "try:\n    import pkg.bad.deep\nexcept ImportError:\n    pass\n",
            "c": "try:\n    import pkg.bad\nexcept ImportError:\n    import pkg.bad.good\n",
        },
        {"pkg.a", "pkg.c"},
        8,
    ),
    "a package that cannot be executed twice": (
        {
            "once": "known = []\n\n\ndef register(name):\n    if name in known:\n        raise RuntimeError(name)\n"
            "    known.append(name)\n",
            "bad/__init__": "import pkg.bad.kept\nimport pkg.bad.inner\n",
            "bad/kept": SET.format("KEPT"),
            "bad/inner": "from pkg.once import register\nregister('inner')\nimport nothing_of_that_name\n",
            "a": "import pkg.bad\n",
            "b": "from pkg import a\n",
            "c": "from pkg.bad.kept import os\n",
            "d": "import importlib\nimportlib.import_module('pkg.bad.kept')\n",
            "e": "try:\n    from pkg import a\nexcept ImportError:\n    import pkg.bad.inner\n",
            "f": "try:\n    import pkg.bad.inner\nexcept ImportError:\n    pass\nexcept RuntimeError:\n"
            + "    import os\n    os.environ['PKG_F'] = '1'\n",
            "g": "import pkg.bad.kept\n",
        },
        {"pkg.e"},
        10,
    ),
    "an error that others change": (
        {
            "bad": "import nothing_of_that_name\n",
            **{
                name: "try:\n    import pkg.bad\nexcept ImportError as error:\n    error.args = (f'{error} hint',)\n"
                "    error.msg += ' hint'\n    raise error from RuntimeError(__name__)\n"
                for name in "ac"
            },
            "files": "open('/nonexistent/library.so')\n",
            "m": "import pkg.bad\n",
            "n": "import pkg.files\n",
            "odd": "class Odd(OSError):\n    __slots__ = ('device',)\n    def __init__(self, device, *, code):\n"
            "        super().__init__(code, 'io', device)\n        self.device = device\n"
            "    def __reduce__(self):\n        raise TypeError\n    def __str__(self):\n"
            "        self.device += '0'\n        return f'{super().__str__()} {self.device}'\n",
            "o": "from pkg.odd import Odd\nraise Odd('gpu', code=5)\n",
            "p": "import pkg.o\n",
            "chained": "try:\n    import nothing_of_that_name\nexcept ImportError:\n    raise RuntimeError('c')\n",
            **{
                name: "try:\n    import pkg.chained\nexcept RuntimeError as error:\n"
                "    if error.__context__:\n"
                "        import os\n        os.environ['PKG_CHAINED'] = '1'\n"
                for name in "stu"
            },
            "q": "class Own(Exception):\n    args = property()\nraise Own\n",
            "r": "import pkg.q\n",
        },
        {"pkg.q", "pkg.r"},
        14,
    ),
    "a circle that fails": (
        {
            "a": "try:\n    import pkg.bad\nexcept ImportError:\n    pass\n",
            "bad": "import pkg.x\nimport nothing_of_that_name\n",
            "x": "import pkg.bad\n",
            "y": "import pkg.x\n",
            "b": "try:\n    import pkg.c\nexcept ImportError:\n    pass\nX = 1\n",
            "c": "from pkg.b import X\nimport nothing_of_that_name\n",
            "d": "import pkg.c\n",
            "e": "import pkg.f\nX = 1\n",
            "f": "try:\n    from pkg.e import X\nexcept ImportError:\n    X = None\n",
            "g": "from pkg.f import X\nif X is None:\n    raise RuntimeError('none')\nimport nothing_of_that_name\n",
        },
        {f"pkg.{name}" for name in "xybcdfg"},
        6,
    ),
    "a package that fails, which is asked for more than once": (
        {
            "bad/__init__": "print('bad')\nimport os\nos.environ['PKG_BAD'] = '1'\nimport pkg.bad.x\n"
            "import nothing_of_that_name\n",
            "bad/x": "print('x')\n",
            "a": "for _ in range(2):\n    try:\n        import pkg.bad.y.z\n    except ImportError:\n        pass\n",
            "b": "try:\n    import pkg.bad\nexcept ImportError:\n    import os\n    del os.environ['PKG_BAD']\n",
            "c": "import pkg.b\ntry:\n    import pkg.bad\nexcept ImportError:\n    pass\n",
            "d": "import pkg.b\nimport pkg.bad\n",
            "e": "try:\n    import pkg.bad.y.z\nexcept ImportError:\n    pass\n",
            "f": "import importlib.util\ntry:\n    importlib.util.find_spec('pkg.bad.x')\nexcept ImportError:\n"
            "    import os\n    os.environ['PKG_F'] = '1'\n",
            "counted": "known = []\n",
            "g": "from pkg.counted import known\nknown.append(1)\nraise ImportError(str(len(known)))\n",
            "h": "try:\n    import pkg.g\nexcept ImportError as error:\n    raise RuntimeError('g') from error\n",
            "i": "try:\n    import pkg.h\nexcept RuntimeError:\n    import pkg.h\n",
        },
        {"pkg.a", "pkg.i"},
        10,
    ),
    "what others set before they import what fails": (
        {
            "bad": "import nothing_made_up\nnothing_made_up.x\n",
            "a": "import pkg.bad\n",
            "m": "import sys, types\nsys.modules['nothing_made_up'] = types.ModuleType('nothing_made_up')\n"
            "import pkg.bad\n",
        },
        {"pkg.a", "pkg.bad", "pkg.m"},
        3,
    ),
    "what goes with an error": (
        {
            "held": "import os\nclass Held:\n    def __del__(self):\n        os.putenv('PKG_HELD', '1')\n",
            "bad": "from pkg.held import Held\nheld = Held()\nimport nothing_of_that_name\n",
            "worse": "import os, weakref\nfrom pkg.held import Held\nclass One(set):\n    pass\none = One()\n"
            "weakref.finalize(one, os.putenv, 'PKG_ONE', '1')\ndel One\nimport nothing_of_that_name\n",
            "probe": "from pkg.held import Held\ndef probe():\n    held = Held()\n    try:\n        import pkg.bad\n"
            "    except ImportError:\n        return False\n",
            **{
                name: f"try:\n    import pkg.{bad}\nexcept ImportError:\n    pass\n"
                for name, bad in zip("abcd", ["bad", "bad", "worse", "worse"], strict=True)
            },
            "e": "from pkg.probe import probe\nprobe()\n",
            "f": "import pkg.e\n",
        },
        {"pkg.bad", "pkg.worse"},
        8,
    ),
    "a module that fails in another way the second time": (
        {
            "known": "NAMES = set()\ndef add(name):\n    if name in NAMES:\n        raise ValueError(name)\n"
            "    NAMES.add(name)\n",
            "a": "import pkg.fails\n",
            "fails": "import pkg.known\npkg.known.add(__name__)\nimport nothing_of_that_name\n",
        },
        {"pkg.a", "pkg.fails"},
        2,
    ),
    "what others set in the environment": (
        {
            "a": SET.format("A"),
            "b": "import os\nif os.environ.get('PKG_A'):\n    os.environ['PKG_B'] = '1'\n",
            "c": "import os\nos.environ.setdefault('PKG_A', 'A')\n",
            "d": "import os\nall = dict(os.environ), {**os.environ}, os.environ.copy()\n",
            "e": "import pkg.a, pkg.b\n",
        },
        {"pkg.b", "pkg.c", "pkg.e"},
        3,
    ),
    "what others put on the path, and among the modules": (
        {
            "a": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'other'))\n",
            "b": "import pkg_of_the_other\n",
            "c": "import os, sys, types\nmade = sys.modules['pkg_made_up'] = types.ModuleType('pkg_made_up')\n"
            "made.__path__ = [os.path.join(os.path.dirname(__file__), 'other')]\n",
            "d": "import pkg_made_up\n",
            "f": "import pkg_made_up.inner\n",
            "e": "import pkg.a\nimport pkg_of_the_other\n",
            "other/inner": SET.format("INNER"),
            "other/pkg_of_the_other": SET.format("OTHER"),
        },
        {"pkg.b", "pkg.d", "pkg.f"},
        6,
    ),
    "what is printed": (
        {"a": "print('a')\nimport pkg.b\nprint('c')\n", "b": "print('b')\nraise SystemExit(3)\n", "c": "print('x')\n"},
        set(),
        2,
    ),
    "threads and exit functions": (
        {
            "a": "import threading\nthreading.Thread(target=int, name='mine').start()\n",
            "b": "import atexit, os\natexit.register(os.putenv, 'PKG_EXIT', '1')\n",
            "c": "import pkg.b\n",
            "d": "import threading\n\n\ndef late():\n    import pkg.heavy\n\n\n"
            "t = threading.Thread(target=late)\nt.start()\nt.join()\n",
            "heavy": "import os\nos.system('true')\n",
        },
        {"pkg.d"},
        5,
    ),
    "what threads find done": (
        {
            "probe": "import os\nKNOWN = []\ndef ask():\n    if not KNOWN:\n        KNOWN.append(1)\n"
            "        os.environ['PKG_ASK'] = '1'\n",
            "heavy": SET.format("HEAVY"),
            "a": "import pkg.heavy\nfrom pkg.probe import ask\nask()\n",
            "b": "import threading\ndef work():\n    import pkg.heavy\nthread = threading.Thread(target=work)\n"
            "thread.start()\nthread.join()\n",
            "c": "import threading\nfrom pkg.probe import ask\nthread = threading.Thread(target=ask)\n"
            "thread.start()\nthread.join()\n",
            "d": "import os, threading\ndef work():\n    os.environ['PKG_D'] = '1'\n"
            "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n",
            "e": "import os, threading\ndef work():\n    if 'PKG_HEAVY' in os.environ:\n"
            "        os.putenv('PKG_E', '1')\nthread = threading.Thread(target=work)\nthread.start()\nthread.join()\n",
        },
        {"pkg.b", "pkg.c", "pkg.d", "pkg.e"},
        6,
    ),
    "what happens at the end": (
        {
            "heavy": SET.format("HEAVY"),
            "a": "import atexit\n\n\n@atexit.register\ndef late():\n    import pkg.heavy\n",
            "b": "import os\n\n\nclass B:\n    def __del__(self):\n        os.putenv('PKG_B', '1')\n\n\n"
            "one = B()\none.itself = one\ndel one\n",
            "c": "import pkg.heavy, atexit\n\n\n@atexit.register\ndef late():\n    import pkg.heavy\n",
        },
        {"pkg.a", "pkg.b"},
        4,
    ),
    "who looks whether a module is there": (
        {
            "deep/__init__": SET.format("DEEP"),
            "deep/one": "",
            "a": "import pkg.deep.one\n",
            "b": "import importlib.util\nassert importlib.util.find_spec('pkg.deep.one')\n",
            "c": "from importlib.util import find_spec\nassert find_spec('.one', 'pkg.deep')\n",
            "d": "import importlib.util\nassert importlib.util.find_spec('pkg.deep')\n",
            "e": "import os\ntry:\n    del os.environ['PKG_DEEP']\nexcept KeyError:\n    os.putenv('PKG_E', '1')\n",
            "f": "import os\nif b'PKG_DEEP' in os.environb:\n    os.putenv('PKG_F', '1')\n",
        },
        {"pkg.e", "pkg.f"},
        6,
    ),
    "folders that others add to a package": (
        {
            "deep/__init__": "",
            "other/one": SET.format("ONE"),
            "a": "import os, pkg.deep\npkg.deep.__path__.append(os.path.dirname(__file__) + '/other')\n"
            "import pkg.deep.one\n",
            "b": "import pkg.deep.one\n",
            "c": "import pkg.a\nfrom pkg.deep import one\n",
        },
        {"pkg.a", "pkg.b", "pkg.c"},
        4,
    ),
    "a module that does something when it is looked at": (
        {
            "odd": "import os, sys, types\n\n\nclass Odd(types.ModuleType):\n    def __getattribute__(self, name):\n"
            "        if name in ('X', '__dict__'):\n            os.putenv('PKG_' + name, '1')\n"
            "        return super().__getattribute__(name)\n\n\nX = 1\nsys.modules[__name__].__class__ = Odd\n",
            "a": "from pkg.odd import X\n",
            "b": "import pkg.odd\npkg.odd.X\n",
            "c": "import pkg.odd\n",
            "d": "from pkg import odd\nfrom pkg.odd import Odd\n",
        },
        set(),
        2,
    ),
    "a finder that comes in between": (
        {
            "a": "import os\ntry:\n    import pkg_of_the_finder\nexcept ImportError:\n    os.putenv('PKG_A', '1')\n",
            "b": "import os, sys\nfrom importlib.machinery import ModuleSpec\n\n\nclass Finder:\n"
            "    def find_spec(self, name, path, target=None):\n"
            "        return ModuleSpec(name, self) if name == 'pkg_of_the_finder' else None\n"
            "    def create_module(self, spec):\n        return None\n"
            "    def exec_module(self, module):\n        os.putenv('PKG_FOUND', '1')\n\n\n"
            "sys.meta_path.append(Finder())\n",
            "c": "import pkg_of_the_finder\n",
            "d": "import pkg.b\nimport pkg_of_the_finder\n",
        },
        {"pkg.a", "pkg.c", "pkg.d"},
        3,
    ),
    "what happens more than once": (
        {
            "probe": "import subprocess\ndef ask():\n    subprocess.run(['true'])\n",
            "a": "from pkg.probe import ask\nask()\nask()\n",
            "b": "from pkg.probe import ask\nfor _ in range(2):\n    ask()\n",
            "c": "import pkg.a\nfrom pkg.probe import ask\nask()\n",
        },
        set(),
        3,
    ),
    "a module that loads itself once more": (
        {
            "twice": "import importlib, os, sys\nif not hasattr(sys, 'pkg_twice'):\n    sys.pkg_twice = 1\n"
            "    sys.modules.pop(__name__)\n    importlib.import_module(__name__)\n    os.environ['PKG_OUTER'] = '1'\n"
            "else:\n    os.environ['PKG_INNER'] = '1'\n",
            "a": "import pkg.twice\n",
        },
        set(),
        2,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_module_is_played_as_its_own_fork_has_it(case: str, tmp_path: Path) -> None:
    files, doubtful, findings = CASES[case]
    write(tmp_path, {"pkg/__init__.py": "", **{f"pkg/{name}.py": text for name, text in files.items()}})
    with Stage(PYTHON, torch=False) as stage:
        modules = stage.discover("pkg", [str(tmp_path)]).modules
        checks = [Check(name, machines.resolve("mi300x"), path=(str(tmp_path),), settle=0.1) for name in modules]
        played = by_a_trace_alone(stage, checks)
        own = {record.id: record for record in stage.run_all(checks)}
    assert {record.subject for key, record in own.items() if key not in played} <= doubtful
    assert {key: told(record) for key, record in played.items()} == {key: told(own[key]) for key in played}
    assert sum(record.verdict != "ok" for record in own.values()) == findings


DEVICES = {
    "pkg/__init__.py": "",
    "pkg/info.py": """\
        import functools
        import torch


        @functools.cache
        def count():
            return torch.cuda.device_count() if torch.cuda.is_available() else 0


        class Platform:
            _capability = None

            def capability(self):
                if self._capability is None:
                    self._capability = torch.cuda.get_device_capability()
                return self._capability


        here = Platform()
    """,
    "pkg/a.py": "from pkg.info import count\nN = count()\n",
    "pkg/b.py": "from pkg.info import count\nN = count()\n",
    "pkg/c.py": "from pkg.info import here\nif here.capability() > (9, 0):\n    pass\n",
    "pkg/d.py": "import pkg.info\n\n\ndef f(n=pkg.info.here.capability()):\n    pass\n",
    "pkg/e.py": "import torch\ntorch.library.define('pkg_ops::known', '(int x) -> int')\n",
    "pkg/f.py": "import torch\nK = torch.ops.pkg_ops.known.default\n",
    "pkg/late.py": "import torch\nknown = []\n\n\ndef late():\n    if not known:\n"
    "        known.append(torch.library.Library('pkg_late', 'DEF'))\n"
    "        known[0].define('late(Tensor x) -> Tensor')\n",
    "pkg/i.py": "from pkg.late import late\nlate()\n",
    "pkg/j.py": "from pkg.late import late\nlate()\n",
    "pkg/k.py": "import pkg.j\nimport pkg.i\n",
    "pkg/l.py": "import torch\ntorch.library.define('pkg_twice::one', '(int x) -> int')\n",
    "pkg/m.py": "import torch\ntorch.library.define('pkg_twice::one', '(int x) -> int')\n",
    "pkg/n.py": "import torch\ntry:\n    torch.library.define('pkg_twice::one', '(int x) -> int')\n"
    "except RuntimeError:\n    import pkg.info\n",
    "pkg/h.py": "import torch\nfor name in torch.ops.pkg_ops:\n    getattr(torch.ops.pkg_ops, name)\n",
    "pkg/g.py": "import pkg.e\nfrom torch import ops\n"
    "K = ops.pkg_ops.known.default\nassert ops.pkg_ops.known.default is K\n",
}


@pytest.mark.skipif("sys.modules.get('torch') is None and not __import__('importlib').util.find_spec('torch')")
def test_devices_and_operators(tmp_path: Path) -> None:
    write(tmp_path, DEVICES)
    with Stage(PYTHON) as stage:
        modules = stage.discover("pkg", [str(tmp_path)]).modules
        checks = [Check(name, machines.resolve("mi300x"), path=(str(tmp_path),)) for name in modules]
        played = by_a_trace_alone(stage, checks)
        own = {record.id: record for record in stage.run_all(checks)}
    assert {record.subject for key, record in own.items() if key not in played} <= {"pkg.f", "pkg.m", "pkg.n"}
    assert {key: told(record) for key, record in played.items()} == {key: told(own[key]) for key in played}
    assert {record.subject for record in own.values() if record.verdict == "device-init"} == {"pkg.c", "pkg.d"}
    assert {record.subject for record in own.values() if record.verdict == "fork-poison"} == {"pkg.a", "pkg.b"}
    assert own["import:pkg.f@mi300x"].verdict == "import-error"
