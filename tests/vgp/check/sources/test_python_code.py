"""Programs with Google's SDK, with pipeline components and with kfp: what they ask for is read, and nothing is run."""

from itertools import pairwise

import pytest

from vgp.check.checker import check
from vgp.check.document_kinds import parse

POOLS = """
from google.cloud import aiplatform
GPUS = {gpus}
KIND = "n1" + "-standard-8"
aiplatform.init(staging_bucket="gs://b")
pools = [{{"machine_spec": {{"machine_type": KIND, "accelerator_type": "NVIDIA_TESLA_T4", "accelerator_count": GPUS}},
          "replica_count": 1, "container_spec": {{"image_uri": "us-docker.pkg.dev/p/r/i:1"}}}}]
job = aiplatform.CustomJob(display_name="one", worker_pool_specs=pools)
job.run(timeout=3600)
"""


def judged(text, name="train.py"):
    return check(parse(name, text))


def find(text, severity="error"):
    return [(each.rule, each.line) for each in judged(text).findings if each.severity == severity]


def test_a_custom_job_is_judged_with_its_constants_and_its_run():
    assert not find(POOLS.format(gpus=2))
    assert find(POOLS.format(gpus=3)) == [("GPU003", 3)]  # the line on which the number stands
    assert not [rule for rule, _ in find(POOLS.format(gpus=2), "warning") if rule == "GPU021"]
    unlimited = POOLS.format(gpus=2).replace("timeout=3600", "")
    assert "GPU021" in [rule for rule, _ in find(unlimited, "warning")]


@pytest.mark.parametrize("gpus", ["int(os.environ['GPUS'])", "options.gpus", "2 if big else 1", "f(1)"])
def test_a_computed_value_is_unknown_and_no_error(gpus):
    text = POOLS.format(gpus=gpus)
    assert not find(text)
    assert any("acceleratorCount is not checkable" in each.message for each in judged(text).findings)


def test_the_last_assignment_above_a_line_counts():
    assert not find(POOLS.format(gpus=3).replace("KIND =", "GPUS = 2\nKIND ="))
    assert find(POOLS.format(gpus=2).replace("KIND =", "GPUS = 3\nKIND =")) == [("GPU003", 4)]
    assert find(POOLS.format(gpus=3) + "GPUS = 2\n") == [("GPU003", 3)]


INIT = "class A:\n  def __init__(self, gpus=3):\n    self.gpus = gpus\n"
FLAG = "p.add_argument('--the-gpus', default=3)\n"
DEFAULTS = {
    "an argument": ("def f(a, gpus=3):", "gpus", ""),
    "a keyword": ("def f(*, gpus: int = 3):", "gpus", "f()"),
    "an argument of the one call": ("def f(a, gpus=1):", "gpus", "MANY = 3\nf(7, gpus=MANY)"),
    "an argument by its place": ("def f(a, gpus):", "gpus", "f(1, 3)"),
    "an argument of a method": ("class A:\n  def f(self, gpus=3):", "gpus", ""),
    "what __init__ is given": (f"{INIT}  def f(self):", "self.gpus", "A()"),
    "the environment": ("def f():", "int(os.environ.get('GPUS', '3'))", ""),
    "the environment by getenv": ("def f():", "int(os.getenv('GPUS', default='3'))", ""),
    "a flag": (f"{FLAG}def f(args):", "args.the_gpus", "f(p.parse_args())"),
    "a flag by dest": (FLAG.replace("default", "dest='g', default") + "x = p.parse_args()\ndef f():", "x.g", ""),
    "a flag of absl": ("flags.DEFINE_integer('gpus', 3, 'how many')\ndef f():", "FLAGS.gpus", "FLAGS = flags.FLAGS"),
}  # fmt: skip


def in_function(head, gpus, below):
    call = (
        POOLS.format(gpus="0")
        .split("job = ")[0]
        .split("pools = ")[1]
        .replace("GPUS", gpus)
        .replace("KIND", "'n1-standard-8'")
    )
    indent = "    " if head.startswith("class") else "  "
    return f"{head}\n{indent}return CustomJobSpec(worker_pool_specs={call})\n{below}\n"


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_a_caller_may_give_is_judged_by_its_default(name):
    head, gpus, below = DEFAULTS[name]
    assert [rule for rule, _ in find(in_function(head, gpus, below))] == ["GPU003"]
    assert not find(in_function(*(part.replace("3", "2") for part in DEFAULTS[name])))


@pytest.mark.parametrize(
    ("head", "gpus", "below"),
    [("def f(a, gpus=3):", "gpus", "f(1, gpus=2)\nf(1, gpus=3)"), ("def f(a, gpus):", "gpus", "f(1, 3)\nf(1)"),
     ("def f(a, gpus=3):", "gpus", "f(1, gpus=None)"), ("def f(a, gpus=3):", "gpus", "f(1, gpus=g())"),
     ("def f(gpus=3):", "gpus", "f(**given)"), ("def f(gpus=3):", "gpus", "f(*given)"), ("def f(gpus=0):", "gpus", ""),
     ("class A:\n  def f(self, gpus=3):", "gpus", "A().f(g(2))"),
     (f"{INIT}  def f(self):", "self.gpus", "A(g(2))"),
     ("def f():", "int(os.environ.get('GPUS'))", ""), ("def f():", "settings.get('GPUS', 3)", ""),
     ("p.add_argument('--gpus', default=3)\np.add_argument('--gpus', default=2)\ndef f():", "args.gpus", ""),
     ("p.add_argument('--gpus', default=3)\ndef f():", "settings.gpus", "")],
)  # fmt: skip
def test_a_default_that_may_not_be_meant_is_not_judged(head, gpus, below):
    text = in_function(head, gpus, below)
    assert not find(text) and any("acceleratorCount is not checkable" in each.message for each in judged(text).findings)


@pytest.mark.parametrize("change", ["if big:\n    GPUS = 2\n", "for GPUS in (1, 2):\n    pass\n", "GPUS += 1\n"])
def test_a_name_that_is_set_under_a_condition_or_computed_is_not_known(change):
    text = POOLS.format(gpus=3).replace("KIND =", f"{change}KIND =")
    assert not find(text) and any("acceleratorCount is not checkable" in each.message for each in judged(text).findings)


@pytest.mark.parametrize("filled", ["pools.append(one)", "for n in range(3):\n    pools.append(one)", "pools += more"])
@pytest.mark.parametrize("first", [True, False])
def test_a_list_that_the_program_fills_is_not_known(filled, first):
    body = 'body = {"job_spec": {"worker_pool_specs": pools}}'
    text = "pools = []\n" + "\n".join([filled, body] if first else [body, filled])
    assert not find(text) and any("not checkable" in each.message for each in judged(text).findings)
    assert find(f"pools = []\n{body}") == [("GPU025", 1)]


def test_what_a_method_changes_is_not_known_below_it():
    call, kinds = "job.run(accelerator_count=kinds['L4'], " + L4 + ")", "kinds = {'L4': 4}"
    assert find(f"{kinds}\n{call}\nkinds.update(L4=2)") == [("GPU003", 1)]
    assert not find(f"{kinds}\nkinds.update(L4=2)\n{call}") and not find(f"{kinds}\nkinds['L4'] = 2\n{call}")


UPDATE = """def make(gpu, job):
    spec{type} = {{"worker_pool_specs": [{{"machine_spec": {{"machine_type": "a2-highgpu-1g"}}, "replica_count": 1,
        "container_spec": {{"image_uri": "a.b/c:1"}}}}]}}
    {change}
    return spec
"""


@pytest.mark.parametrize("type_", ["", ": dict"])
@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        ("if gpu:\n        spec[POOLS][0]['machine_spec'].update({'accelerator_type': 'K80'})", "acceleratorType"),
        ("spec[POOLS][0]['machine_spec'].update(accelerator_type=gpu, accelerator_count=1)", "acceleratorType"),
        ("spec[POOLS][0]['machine_spec']['accelerator_type'] = gpu", "acceleratorType"),
        ("spec[POOLS][0]['machine_spec'] |= gpu", "machineSpec"),
        ("for n in range(2):\n        spec[POOLS][n]['machine_spec'].clear()", "workerPoolSpecs"),
        ("spec[POOLS].append(gpu)", "workerPoolSpecs"),
    ],
)  # fmt: skip
def test_what_the_program_changes_of_a_request_is_not_known(change, unknown, type_):
    text = UPDATE.format(change=change.replace("POOLS", "'worker_pool_specs'"), type=type_)
    assert not find(text) and any(f"{unknown} is not checkable" in each.message for each in judged(text).findings)
    assert len(judged(text).steps) == 1


def test_what_changes_another_list_or_comes_before_leaves_a_request_as_it_is():
    for change in (
        "gpu['worker_pool_specs'].append(1)",
        "pass\n\ndef other(spec):\n    spec['worker_pool_specs'].pop()",
    ):
        assert find(UPDATE.format(change=change, type="")) == [("GPU006", 2)]
    below = UPDATE.format(change="submit(spec)\n    spec = load()\n    spec['worker_pool_specs'].clear()", type="")
    assert find(below) == [("GPU006", 2)]


def test_a_request_whose_fields_are_given_elsewhere_is_not_known():
    pool = (
        '{"machine_spec": {"machine_type": "a2-highgpu-1g", **gpu}, "container_spec": {"image_uri": "a.b/c:1"}, **rest}'
    )
    for one in (
        pool,
        "{**rest}",
        pool.replace("**gpu", "**gpu, 'accelerator_count': 1"),
        pool.replace('"machine_type"', "**gpu, 'machine_type'"),
    ):
        assert not find(f'spec = {{"worker_pool_specs": [{one}]}}')
    assert find(f'gpu, rest = {{}}, {{"replica_count": 1}}\nspec = {{"worker_pool_specs": [{pool}]}}') == [
        ("GPU006", 2)
    ]
    assert not find('create_custom_training_job_from_component(step, accelerator_type="NVIDIA_B200", **more)')


@pytest.mark.parametrize("kind", ["NVIDIA_B200", "NVIDIA_H100_80GB", "NVIDIA_L4", "NVIDIA_GB200"])
def test_a_count_that_is_not_known_is_no_count_of_one(kind):
    call = f'job.run(machine_type=machine(), accelerator_type="{kind}", accelerator_count=count())'
    assert not find(call) and len(judged(call).steps) == 1
    assert find(call.replace(kind, "NVIDIA_B300")) == [("GPU002", 1)]
    assert (
        "? x"
        in judged(call.replace("machine()", '"n1-standard-8"').replace(kind, "NVIDIA_TESLA_T4")).steps[0].unknown_reason
    )


def test_a_function_sees_its_module_and_not_the_names_of_others():
    call = 'job.run(machine_type="g2-standard-24", accelerator_type="NVIDIA_L4", accelerator_count=N)'
    assert find(f"N = 4\ndef f():\n    {call}") == [("GPU003", 1)]
    assert not find(f"N = 4\ndef f(N):\n    {call}") and not find(f"def g():\n    N = 4\ndef f():\n    {call}")
    assert find(f"def f():\n    N, M = 4, 2\n    {call}") == [("GPU003", 2)]


def test_a_job_without_a_staging_bucket_fails_at_once():
    without = POOLS.format(gpus=2).replace('aiplatform.init(staging_bucket="gs://b")', "aiplatform.init()")
    assert [rule for rule, _ in find(without)] == ["GPU034"]
    given = without.replace('display_name="one"', 'display_name="one", staging_bucket="gs://b"')
    assert not find(given)


CONTAINER = '"replica_count": 1, "container_spec": {"image_uri": "a.b/c:1"}'
L4 = 'machine_type="g2-standard-24", accelerator_type="NVIDIA_L4"'
BODY = (
    'body = {"job_spec": {"worker_pool_specs": [{"machine_spec": {"machine_type": "n1-standard-4", %s}, '
    + CONTAINER
    + "}]}}"
)
K80 = '"accelerator_type": aiplatform.gapic.AcceleratorType.NVIDIA_TESLA_K80, "accelerator_count": 1'
MESSAGES = """spec = CustomJobSpec(worker_pool_specs=[WorkerPoolSpec(
    machine_spec=MachineSpec(machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=8),
    replica_count=1, container_spec=ContainerSpec(image_uri="a.b/c:1"))])"""
SELECTOR = 't.add_node_selector_constraint("cloud.google.com/gke-accelerator", "nvidia-l5")'
RAY = """def cluster(kind="NVIDIA_TESLA_{}"):
  few = Resources(machine_type="n1-standard-8", node_count=2, accelerator_type=kind, accelerator_count=1)
  return vertex_ray.create_ray_cluster(head_node_type=Resources(), worker_node_types=[few], location="us-central1")"""
POOL = '[{"machine_spec": {"machine_type": "n1-standard-4", %s}, "replica_count": 1}]'
OPERATOR = 'CreateCustomContainerTrainingJobOperator(task_id="a", container_uri="a.b/c:1", accelerator_type=%r, '
CALLS = {
    "run": (f"job.run({L4}, accelerator_count=2)", []),
    "run with too many": (f"job.run({L4}, accelerator_count=4)", ["GPU003"]),
    "run with half a request": ('job.run(accelerator_type="NVIDIA_TESLA_T4")', ["GPU005"]),
    "run on a TPU": ('job.run(machine_type="ct5lp-hightpu-4t", tpu_topology="17x3")', ["GPU032"]),
    "Op": ((f'CustomTrainingJobOp(worker_pool_specs=[{{"machine_spec": {{"machine_type": "n1-standard-9"}}, '
           f'{CONTAINER}}}])'), ["GPU001"]),
    "component": (('create_custom_training_job_from_component(step, machine_type="g2-standard-4", '
                  'accelerator_type="NVIDIA_L4")'), []),
    "component with another": (('create_custom_training_job_from_component(step, machine_type="a2-highgpu-1g", '
                               'accelerator_type="NVIDIA_L4")'), ["GPU004"]),
    "limits in a chain": ('step(a=1).set_accelerator_type("NVIDIA_L4").set_accelerator_limit(3)', ["GPU003"]),
    "limits by name": (f"t = step()\nt.set_gpu_limit(1)\n{SELECTOR}", ["GPU002"]),
    "limits by the older name of kfp 2": ('step().set_gpu_limit(1).add_node_selector_constraint("NVIDIA_L4")', []),
    "limits by the label of kfp 1": (f"t = step()\n{SELECTOR}".replace("nvidia-l5", "nvidia-tesla-t4"), []),
    "limits by a type alone": ('step().set_accelerator_type("NVIDIA_L4")', []),
    "a step of Kubernetes": ('dsl.ContainerOp(name="a", image="i").set_gpu_limit(1)', []),
    "a mapping of pools": (('CustomJob(staging_bucket="gs://b", worker_pool_specs={"machine_spec": '
                           f'{{"machine_type": "n1-standard-4"}}, {CONTAINER}}})'), ["GPU034"]),
    "limits without a type": ("step().set_gpu_limit(1)", ["GPU005"]),
    "limits without a GPU": ('step().set_cpu_limit("4").set_memory_limit("900G")', []),
    "deploy": ('model.deploy(machine_type="n1-standard-4", accelerator_type="NVIDIA_TESLA_T4", accelerator_count=3)',
               ["GPU003"]),
    "batch": ('model.batch_predict(machine_type="g2-standard-4", accelerator_type="NVIDIA_L4", accelerator_count=1)',
              []),
    "dictionary": (BODY % K80, ["GPU011"]),
    "messages": (MESSAGES, ["GPU003"]),
    "duration as a message": ((f'{{"job_spec": {{"worker_pool_specs": [{{"machine_spec": {{"machine_type": '
                              f'"n1-standard-4"}}, {CONTAINER}}}], '
                              '"scheduling": {"timeout": {"seconds": 600}}}}'), []),
    "legacy job that is computed": ('{"trainingInput": {"scaleTier": c["t"], "masterType": c["m"]}}', []),
    "a cluster of Ray": (RAY.format("T4"), []),
    "a cluster of Ray on what is gone": (RAY.format("K80"), ["GPU011"]),
    "a cluster of Ray that is computed": ("create_ray_cluster(head_node_type=f(), worker_node_types=[*g()])", []),
    "persistent resource": ((f"PersistentResource.create(persistent_resource_id='a', resource_pools={POOL % K80})"),
                            ["GPU011"]),
    "another create": ("Thing.create(resource_pools=3)\nThing.make(deployed_model=4)", []),
    "operator": (OPERATOR % "NVIDIA_TESLA_K80" + 'accelerator_count=1, region="us-central1")', ["GPU011"]),
    "operator without a count": (OPERATOR % "NVIDIA_TESLA_T4" + "replica_count=2)", ["GPU005"]),
    "operator with a template": (OPERATOR % "{{ params.gpu }}" + "accelerator_count=1)", []),
    "operator that predicts": (f"CreateBatchPredictionJobOperator({L4}, accelerator_count=4)", ["GPU003"]),
    "operator that deploys": ((f'DeployModelOperator(deployed_model={{"dedicated_resources": {{"machine_spec": '
                              f'{{"machine_type": "n1-standard-4", {K80}}}, "min_replica_count": 1}}}})'), ["GPU011"]),
    "others": ('app.run(host="0.0.0.0")\nimage.deploy(1)', []),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_read_as_the_requests_that_they_send(name):
    call, rules = CALLS[name]
    assert sorted({rule for rule, _ in find(call)}) == rules


def test_the_machines_of_a_ray_cluster_are_named_at_their_lines_and_counted():
    report = judged(RAY.format("K80"))
    assert [(each.line, str(each.field)) for each in report.of_severity("error")] == [
        (1, "resourcePools[1].machineSpec.acceleratorType")
    ]
    assert [(each.machine_type, each.replicas) for each in report.steps] == [
        ("n1-standard-16", 1),
        ("n1-standard-8", 2),
    ]
    scaled = RAY.format("T4").replace(
        "node_count=2", "autoscaling_spec=AutoscalingSpec(min_replica_count=4, max_replica_count=2)"
    )
    assert [each.rule for each in judged(scaled).of_severity("error")] == ["GPU007"]


HOSTILE = {
    "parentheses": "(" * 5000,
    "signs": "x = " + "-" * 90_000 + "1",
    "list": "b = [1] * 10**9\nCustomJob('x', b)",
    "text": "x = 'a' * 10**9\nj.run(machine_type=x)",
    "itself": "l = [" + "{'machine_spec': l}," * 500 + "]",
    "null": "\0",
    "circle": "a = b\nb = a\nj.run(machine_type=a)",
    "doubling": "\n".join(["a = 'x' * 9000", *(f"{b} = {a} + {a}" for a, b in pairwise("abcdefghijk"))])
    + "\nj.run(machine_type=k)",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_is_answered(name):
    judged(HOSTILE[name])  # within the time of a test, and without an exception


def test_warnings_of_python_about_the_program_are_not_shown(recwarn):
    find('x = 1if True else 2\nassert (x, "y")\n')
    assert not recwarn.list


RUN = f"job.run({L4}, accelerator_count=2)"
MAKER = f'job = aiplatform.CustomTrainingJob(display_name="a"GIVEN, container_uri="a.b/c:1")\n{RUN}'
JOB = (
    'aiplatform.CustomJob(staging_bucket="gs://b"GIVEN, worker_pool_specs=[{"machine_spec": '
    f'{{"machine_type": "n1-standard-4"}}, {CONTAINER}}}])'
)


@pytest.mark.parametrize("made", [JOB, MAKER])
def test_a_job_of_the_sdk_runs_in_the_region_that_the_program_names(made):
    def wrong(inits, given=""):
        return find(f"{inits}\n{made.replace('GIVEN', given)}")

    init = 'aiplatform.init(location="us-central9")'
    assert [rule for rule, _ in wrong(init)] == ["GPU030"]
    assert not wrong('aiplatform.init(location="us-central1")') and not wrong("aiplatform.init()")
    assert [rule for rule, _ in wrong("aiplatform.init()", ', location="us-central9"')] == ["GPU030"]
    assert not wrong(init, ', location="us-central1"') and not wrong(init, ", location=region()")
    assert not wrong(f'{init}\naiplatform.init(location="us-central1")'), "either may be meant"
    assert not wrong(f"{init}\naiplatform.init(**options)") and not wrong(init.replace('"us-central9"', "region()"))


def test_the_region_of_init_is_none_of_a_pipeline_s_step_or_of_a_job_made_elsewhere():
    init = 'aiplatform.init(location="us-central9")\n'
    step = JOB.replace("aiplatform.CustomJob", "CustomTrainingJobOp").replace("GIVEN", "")
    assert not find(init + RUN) and not find(init + step)


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
    "item that is set": ("CONFIG = {'gpus': 1}\nCONFIG['gpus'] = 4\n", "CONFIG['gpus']"),
    "updated item": ("CONFIG = {}\nCONFIG.update({'gpus': 4})\n", "CONFIG['gpus']"),
    "united item": ("CONFIG = {'gpus': 1} | {'gpus': 4}\n", "CONFIG['gpus']"),
    "appended item": ("ALL = []\nALL.append({'gpus': 4})\n", "ALL[0]['gpus']"),
    "nested item": ("CONFIG = {'train': {'gpus': [1, 4]}}\n", "CONFIG['train']['gpus'][1]"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_set_once_is_followed(name):
    text, expression = KNOWN[name]
    assert [rule for rule, _ in find(text + CALL.format(expression))] == ["GPU003"]
    assert not find(text.replace("4", "2") + CALL.format(expression))


def test_the_line_is_that_of_the_value():
    text, expression = KNOWN["class"]
    assert find(text + CALL.format(expression)) == [("GPU003", 2)]


def test_a_method_finds_what_its_class_has():
    method = "    def train(self):\n        " + CALL
    assert find("class A:\n    GPUS = 4\n" + method.format("self.GPUS")) == [("GPU003", 2)]
    heir = "class B(A):\n    GPUS = 2\n"
    assert not find("class A:\n    GPUS = 4\n" + method.format("self.GPUS") + heir)


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
    "an item that some runs set": ("CONFIG = {'gpus': 4}\nif big:\n    CONFIG['gpus'] = 2\n", "CONFIG['gpus']"),
    "an item of an unknown key": ("CONFIG = {'gpus': 4}\nCONFIG[key()] = 2\n", "CONFIG['gpus']"),
    "items of an unknown update": ("CONFIG = {'gpus': 4}\nCONFIG.update(other)\n", "CONFIG['gpus']"),
    "an item that is not there": ("CONFIG = {'gpus': 4}\n", "CONFIG['cpus']"),
    "a base of itself": ("class A(B):\n    pass\nclass B(A):\n    pass\n", "A.GPUS"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_run_may_change_is_unknown_and_no_error(name):
    text, expression = UNKNOWN[name]
    report = judged(text + CALL.format(expression))
    assert not [each for each in report.findings if each.severity == "error"]
    assert any("acceleratorCount is not checkable" in each.message for each in report.findings)
