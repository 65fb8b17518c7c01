"""Attributes of a program's classes: those that are the same in every run are followed, all others are unknown."""

import pytest

from tests.vgp.check.sources.test_python_code import judged, told

CALL = 'job.run(machine_type="g2-standard-24", accelerator_type="NVIDIA_L4", accelerator_count={})\n'

KNOWN = {
    "class": ("class Config:\n    GPUS = 4\n", "Config.GPUS"),
    "instance": ("class Config:\n    GPUS = 4\nconfig = Config()\n", "config.GPUS"),
    "base": ("class Base:\n    GPUS = 4\nclass Config(Base):\n    OTHER = 1\n", "Config.GPUS"),
    "dataclass": ("@dataclass\nclass Config:\n    gpus: int = 4\nconfig = Config()\n", "config.gpus"),
    "field": ("@dataclass(frozen=True)\nclass Config:\n    gpus: int = field(default=4)\nc = Config()\n", "c.gpus"),
    "keyword": ("@dataclass\nclass Config:\n    gpus: int = 2\nconfig = Config(gpus=4)\n", "config.gpus"),
    "positional": ("@dataclass\nclass C:\n    name: str\n    gpus: int = 2\nconfig = C('a', 4)\n", "config.gpus"),
    "enum": ("class Gpus(Enum):\n    TRAIN = 4\n", "Gpus.TRAIN.value"),
    "init": ("class C:\n    def __init__(self, x):\n        self.gpus = 4\n        self.x = x\nc = C(1)\n", "c.gpus"),
    "namespace": ("config = SimpleNamespace(gpus=4)\n", "config.gpus"),
    "item": ("CONFIG = {'gpus': 4}\n", "CONFIG['gpus']"),
    "nested item": ("CONFIG = {'train': {'gpus': [1, 4]}}\n", "CONFIG['train']['gpus'][1]"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_set_once_is_followed(name):
    text, expression = KNOWN[name]
    assert [rule for rule, _ in told(text + CALL.format(expression))] == ["GPU003"]
    assert not told(text.replace("4", "2") + CALL.format(expression))


def test_the_line_is_that_of_the_value():
    text, expression = KNOWN["class"]
    assert told(text + CALL.format(expression)) == [("GPU003", 2)]


def test_a_method_finds_what_its_class_has():
    method = "    def train(self):\n        " + CALL
    assert told("class A:\n    GPUS = 4\n" + method.format("self.GPUS")) == [("GPU003", 2)]
    heir = "class B(A):\n    GPUS = 2\n"
    assert not told("class A:\n    GPUS = 4\n" + method.format("self.GPUS") + heir)


UNKNOWN = {
    "set elsewhere": ("class C:\n    GPUS = 4\nC.GPUS = 2\n", "C.GPUS"),
    "set twice": ("class C:\n    GPUS = 4\n    GPUS = 2\n", "C.GPUS"),
    "under a condition": ("class C:\n    if big:\n        GPUS = 4\n", "C.GPUS"),
    "an argument": ("class C:\n    def __init__(self, g):\n        self.gpus = g\nc = C(4)\nd = C(2)\n", "c.gpus"),
    "a condition in init": (
        "class C:\n    def __init__(self):\n        if big:\n            self.gpus = 4\nc = C()\n",
        "c.gpus",
    ),
    "a factory": ("@dataclass\nclass C:\n    gpus: int = field(default_factory=four)\nc = C()\n", "c.gpus"),
    "open arguments": ("@dataclass\nclass C:\n    gpus: int = 4\nc = C(**options)\n", "c.gpus"),
    "two classes": ("class C:\n    GPUS = 4\nclass C:\n    GPUS = 2\n", "C.GPUS"),
    "another name": ("class C:\n    GPUS = 4\nC = load()\n", "C.GPUS"),
    "itself": ("class C:\n    GPUS = C.GPUS\n", "C.GPUS"),
    "two that want each other": ("class A:\n    X = B.X\nclass B:\n    X = A.X\n", "A.X"),
    "a parser": ("options = parser.parse_args()\n", "options.gpus"),
    "an item that is set": ("CONFIG = {'gpus': 4}\nCONFIG['gpus'] = 2\n", "CONFIG['gpus']"),
    "an item that is not there": ("CONFIG = {'gpus': 4}\n", "CONFIG['cpus']"),
    "a base of itself": ("class A(B):\n    pass\nclass B(A):\n    pass\n", "A.GPUS"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_run_may_change_is_unknown_and_no_error(name):
    text, expression = UNKNOWN[name]
    report = judged(text + CALL.format(expression))
    assert not [each for each in report.findings if each.severity == "error"]
    assert any("acceleratorCount is not checkable" in each.message for each in report.findings)
