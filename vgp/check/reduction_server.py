"""Judges a job with reduction servers: whether the workers can use what they pay for.

https://docs.cloud.google.com/vertex-ai/docs/training/distributed-training#reduce_training_time_with_reduction_server
"""

import re
from collections.abc import Sequence

from vgp.base.documents.node import Node
from vgp.check.fields import Reader
from vgp.check.worker_pool import Pool

RULE = "GPU036"
_SERVER = "/training/reductionserver"
#: Google's images for training with GPUs have the plugin, so its page; nothing else is known to.
_HAS_PLUGIN = re.compile(r"^[a-z]+-docker\.pkg\.dev/vertex-ai/training/(pytorch|tf)-gpu\.")


def judge(reader: Reader, nodes: Sequence[Node], pools: Sequence[Pool]) -> None:
    """The workers of a job whose third pool runs Google's server: several machines with GPUs, and NCCL's plugin."""
    if len(nodes) < 3 or _SERVER not in (_image(nodes[2]).text() or ""):
        return
    with_gpus = [pool for pool in pools if pool.spec.accelerator]
    known = all(pool.spec.complete and pool.replicas is not None for pool in pools)
    if known and sum(pool.replicas or 0 for pool in with_gpus) < 2:
        text = "Reduction servers sum gradients of several machines with GPUs; this job has fewer than two."
        reader.judgement.add(reader.step, nodes[2], RULE, text, "Drop the third pool, or add workers with GPUs.")
        return
    for node in nodes[:2]:
        image = _image(node)
        name = image.text()
        if name and image.known and not _HAS_PLUGIN.match(name):
            text = (
                f"Whether {name} has google-reduction-server, its name does not tell. Without it NCCL sums past the "
                "reduction servers, which cost all the same."
            )
            fix = "Install the package in the image (docs/rules/GPU036.md), or drop the third pool."
            reader.judgement.add(reader.step, image, RULE, text, fix)
            return


def _image(pool: Node) -> Node:
    return pool.get("containerSpec").get("imageUri")
