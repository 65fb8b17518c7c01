"""A legacy file while it is converted: what was read of it so far, and the job that it becomes."""

from dataclasses import replace

from vgp.base.documents.document import Document
from vgp.base.documents.field_path import FieldPath, dotted
from vgp.base.documents.node import Node
from vgp.check import legacy
from vgp.check.convert.conversion import Conversion, leaves, text_of
from vgp.check.judgement import Judgement, Reader

#: What the service writes into a job.
_OUTPUT = ("trainingOutput", "createTime", "state", "etag", "startTime", "endTime", "errorMessage", "jobPosition")


class LegacyInput:
    """A trainingInput and the Conversion of it; every field is taken, or accounted for as lost."""

    def __init__(self, document: Document, judgement: Judgement) -> None:
        self.data = document.data
        self.node = replace(legacy.training_input(document.data), is_verbatim=True)
        self.reader, self.result = Reader(judgement, "trainingInput"), Conversion({"workerPoolSpecs": []})
        self.roles = {legacy.ROLES[role.name]: role for role in legacy.roles(self.node, self.reader)}
        #: Where everything stands that went into the result or was told.
        self.taken: set[FieldPath] = set()

    def take(self, node: Node) -> Node:
        self.taken.add(node.path)
        return node

    def text(self, name: str) -> str | None:
        """Takes a field of the trainingInput that is a text."""
        return self.reader.text(self.take(self.node.get(name)), name)

    def texts(self, node: Node) -> list[str]:
        """A list of arguments or addresses."""
        if node.value is None:
            return []
        self.take(node)
        if isinstance(node.value, list) and all(isinstance(item, str | int | float) for item in node.value):
            return [text_of(item) for item in node.value]
        self.reader.judgement.malformed(self.reader.step, node, str(node.path[-1]), "a list of texts")
        return []

    def account(self) -> None:
        """Names everything that was not taken."""
        inner = self.node.path
        for path in leaves(self.data):
            if not any(path[:depth] in self.taken for depth in range(1, len(path) + 1)):
                own = path[len(inner) :] if path[: len(inner)] == inner else path
                self.result.dropped(dotted(own), self._why_not(own))

    def _why_not(self, path: FieldPath) -> str:
        name = str(path[0]) if path else ""
        role = next((role for role in legacy.ROLES if name in (f"{role}Type", f"{role}Config", f"{role}Count")), None)
        if name in _OUTPUT:
            return "the service writes it"
        if path[-1:] == ("tpuTfVersion",):
            return "a custom job's image brings the software of its TPUs"
        tier = self.node.get("scaleTier").text()
        if role is not None and len(path) == 1 and tier and tier != "CUSTOM":
            return f"scaleTier {tier} decides the machines; it counts with CUSTOM only"
        if role is not None and legacy.ROLES[role] not in self.roles:
            return f"the job has no such machines: they need {role}Type and {role}Count, or another scaleTier"
        if name in ("packageUris", "pythonModule"):
            return "the container image has its own code"
        return "custom jobs have no such field"
