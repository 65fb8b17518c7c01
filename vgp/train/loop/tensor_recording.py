"""Records operations on large tensors instead of running them, and repeats them later for one tensor, bit by bit.

Under a recording, large tensors are on the meta device. The recording keeps their operations, with the state of the
random generator before each draw. It also runs each draw into temporary memory, so that later draws do not change.
`Recording.value` repeats the operations of a tensor to compute its value. Small tensors are always real.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from vgp.base.documents.json_text import JsonObject

T = TypeVar("T")
#: Positional arguments of an operation; tensors may be nested in lists.
Arguments: TypeAlias = tuple[Any, ...]

aten = torch.ops.aten
#: Size in bytes from which a tensor is recorded.
LARGE = 1 << 20
#: Operations that fill a tensor with random numbers.
_DRAWING = (aten.normal_, aten.uniform_, aten.exponential_, aten.random_, aten.cauchy_, aten.log_normal_,
            aten.geometric_)  # fmt: skip
#: Operations that fill a tensor independently of its former values.
_FILLING = (*_DRAWING, aten.zero_, aten.fill_, aten.copy_)
#: Operations that move a tensor to other memory.
_REPLACING = (aten.set_, aten.resize_, aten.resize_as_)


class Unrecordable(Exception):
    """The constructor needs the values of large tensors."""


@dataclass
class Memory:
    """The memory that a large tensor shares with its views."""

    bytes: int
    #: The operations that created it and wrote to it.
    operations: "list[Operation]" = field(default_factory=list)


@dataclass(frozen=True)
class View:
    """A tensor on recorded memory."""

    memory: Memory
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def on(self, storage: torch.UntypedStorage) -> Tensor:
        return torch.empty(0, dtype=self.dtype).set_(storage, self.offset, self.size, self.stride)

    @property
    def is_whole(self) -> bool:
        """Whether the tensor covers its memory without a gap."""
        expected = 1
        for size, stride in sorted(zip(self.size, self.stride, strict=True), key=lambda pair: pair[1]):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return expected * self.dtype.itemsize == self.memory.bytes


@dataclass(eq=False)
class Operation:
    """A recorded call, with large tensors as views."""

    number: int
    function: OpOverload
    arguments: tuple[tuple[object, ...], JsonObject]
    #: The state of the random generator before the call; None if it draws no numbers.
    random: Tensor | None
    #: The large tensors that it created, by their index among its outputs.
    made: dict[int, View] = field(default_factory=dict)

    @property
    def inputs(self) -> list[View]:
        return [leaf for leaf in tree_leaves(self.arguments) if isinstance(leaf, View)]

    def fills(self, memory: Memory) -> bool:
        """Whether the call replaces all former content of `memory`."""
        first = self.arguments[0][0] if self.arguments[0] else None
        is_whole = isinstance(first, View) and first.memory is memory and first.is_whole
        is_only_input = is_whole and all(view.memory is not memory for view in self.inputs if view is not first)
        return any(view.memory is memory for view in self.made.values()) or (
            is_only_input and self.function.overloadpacket in _FILLING
        )


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that records operations on large tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memories: dict[int, Memory] = {}
        #: Kept alive so that no address is reused.
        self.storages: list[torch.UntypedStorage] = []
        self.count = 0

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Arguments = (), kwargs: JsonObject | None = None
    ) -> object:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(map(self.view, tensors)) and (tensors or not _creates_large(func, args, kwargs)):
            return func(*args, **kwargs)
        if _returns_no_tensor(func) or any(self.view(written) is None for written in _written(func, args, kwargs)):
            return func(*self._real(args), **self._real(kwargs))
        return self._record(func, args, kwargs)

    def view(self, tensor: Tensor) -> View | None:
        """Returns the view of a recorded tensor; None if the tensor is real."""
        if tensor.layout != torch.strided:
            return None
        memory = self.memories.get(tensor.untyped_storage()._cdata)
        if memory is None:
            return None
        if tensor.is_conj() or tensor.is_neg():
            raise Unrecordable("a conjugate view of a large tensor")
        return View(memory, tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))

    def value(self, view: View) -> Tensor:
        """Computes the current value of a recorded tensor, in new memory."""
        return self._values([view])[0]

    def _record(self, func: OpOverload, args: Arguments, kwargs: JsonObject) -> object:
        if func.overloadpacket in _REPLACING:
            raise Unrecordable(f"{func.overloadpacket} of a large tensor")
        random = self._draw(func, args, kwargs) if torch.Tag.nondeterministic_seeded in func.tags else None
        result = func(*_on_meta(args), **_on_meta(kwargs))
        arguments = tree_map(lambda leaf: self._keep(leaf) if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        operation = Operation(self.count, func, arguments, random)
        self.count += 1
        for place, output in enumerate(tree_leaves(result)):
            if isinstance(output, Tensor) and self.view(output) is None:
                storage = output.untyped_storage()
                self.storages.append(storage)
                memory = self.memories[storage._cdata] = Memory(storage.nbytes(), [operation])
                view = self.view(output)
                assert view and view.memory is memory
                operation.made[place] = view
        for written in _written(func, args, kwargs):
            view = self.view(written)
            assert view
            view.memory.operations.append(operation)
        return result

    def _keep(self, tensor: Tensor) -> View | Tensor:
        """Returns the view of a recorded tensor, or a copy of a real one, which may change later."""
        return self.view(tensor) or tensor.detach().clone()

    def _draw(self, func: OpOverload, args: Arguments, kwargs: JsonObject) -> Tensor:
        """Runs the call to advance the random generator; returns the generator's state before it."""
        state = _find_generator(kwargs).get_state()
        if func.overloadpacket in _DRAWING:
            target = args[0]
            func(torch.empty_strided(target.shape, target.stride(), dtype=target.dtype), *args[1:], **kwargs)
        else:
            func(*self._real(args), **self._real(kwargs))
        return state

    def _real(self, tree: T) -> T:
        """Replaces recorded tensors in the arguments by their current values."""

        def real(leaf: object) -> object:
            view = self.view(leaf) if isinstance(leaf, Tensor) else None
            return leaf if view is None else self.value(view)

        values: T = tree_map(real, tree)
        return values

    def _values(self, views: list[View]) -> list[Tensor]:
        storages: dict[int, torch.UntypedStorage] = {}
        default = torch.default_generator.get_state()
        states: dict[torch.Generator, Tensor] = {}
        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            try:
                for operation in _required_operations(views):
                    self._repeat(operation, storages, states)
            finally:
                torch.default_generator.set_state(default)
                for generator, state in states.items():
                    generator.set_state(state)
        return [view.on(storages[id(view.memory)]) for view in views]

    def _repeat(
        self, operation: Operation, storages: dict[int, torch.UntypedStorage], states: dict[torch.Generator, Tensor]
    ) -> None:
        """Runs an operation again; keeps the former states of generators in `states`."""
        args, kwargs = tree_map(
            lambda leaf: leaf.on(storages[id(leaf.memory)]) if isinstance(leaf, View) else leaf, operation.arguments
        )
        if operation.random is not None:
            generator = _find_generator(kwargs)
            if generator is not torch.default_generator:
                states.setdefault(generator, generator.get_state())
            generator.set_state(operation.random)
        outputs = tree_leaves(operation.function(*args, **kwargs))
        for place, view in operation.made.items():
            output = outputs[place]
            if (tuple(output.shape), output.stride(), output.storage_offset()) != (view.size, view.stride, view.offset):
                raise Unrecordable(f"{operation.function} has another layout without the values")
            storages[id(view.memory)] = output.untyped_storage()


def _required_operations(views: list[View]) -> Iterator[Operation]:
    """Yields the operations that decide the values of the views, in order."""
    required: dict[int, Operation] = {}
    pending = [(view.memory, 1 << 62) for view in views]
    while pending:
        memory, before = pending.pop()
        for operation in reversed(memory.operations):
            if operation.number >= before:
                continue
            if operation.number not in required:
                required[operation.number] = operation
                pending += [(view.memory, operation.number) for view in operation.inputs]
            if operation.fills(memory):
                break
    return (required[number] for number in sorted(required))


def _creates_large(func: OpOverload, args: Arguments, kwargs: JsonObject) -> bool:
    """Whether a call without tensor arguments creates a large tensor on the CPU."""
    if not any(argument.name == "device" for argument in func._schema.arguments) or _returns_no_tensor(func):
        return False
    if torch.device(kwargs.get("device") or "cpu").type != "cpu" or kwargs.get("layout") not in (None, torch.strided):
        return False
    outputs = tree_leaves(func(*args, **_on_meta(kwargs | {"device": "cpu"})))
    return bool(sum(output.nbytes for output in outputs) >= LARGE)


def _returns_no_tensor(func: OpOverload) -> bool:
    return not any("Tensor" in str(value.type) for value in func._schema.returns)


def _written(func: OpOverload, args: Arguments, kwargs: JsonObject) -> list[Tensor]:
    """Returns the tensors that a call writes to."""
    written = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            written += [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return written


def _on_meta(tree: T) -> T:
    """Moves the tensors and the device in the arguments to the meta device."""

    def move(leaf: object) -> object:
        if isinstance(leaf, Tensor) and not leaf.is_meta:
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
        return leaf

    result: T = tree_map(move, tree)
    if isinstance(result, dict):
        result.pop("pin_memory", None)
        if (device := result.get("device")) is not None:
            if torch.device(device).type not in ("cpu", "meta"):
                raise Unrecordable(f"a large tensor is moved to {device}")
            result["device"] = torch.device("meta")
    return result


def _find_generator(kwargs: JsonObject) -> torch.Generator:
    return kwargs.get("generator") or torch.default_generator
