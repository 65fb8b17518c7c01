"""What is done to large tensors, recorded instead of done, and done again for one of them: the same bits.

While a recording is entered, a tensor that would be large is of the meta device and knows only its form; what is done
to it is kept, with the state of the random numbers before each draw. A draw is also made, into memory that is dropped
at once, so that the next one is what it would have been. The value of any such tensor is what its operations make of
it when they are done again (`Recording.value`).

Small tensors are real all the time.
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
#: What an operation is called with, by position; tensors may lie in lists.
Arguments: TypeAlias = tuple[Any, ...]

aten = torch.ops.aten
#: Bytes from which on a tensor is not made.
LARGE = 1 << 20
#: Operations that fill a tensor whatever was in it; the first of them draw random numbers.
_DRAWING = (aten.normal_, aten.uniform_, aten.exponential_, aten.random_, aten.cauchy_, aten.log_normal_,
            aten.geometric_)  # fmt: skip
_FILLING = (*_DRAWING, aten.zero_, aten.fill_, aten.copy_)
#: What moves a tensor to other memory without making a new one.
_REPLACING = (aten.set_, aten.resize_, aten.resize_as_)


class Unrecordable(Exception):
    """The constructor does what cannot be done without the values."""


@dataclass
class Memory:
    """What a large tensor and its views share."""

    bytes: int
    #: What made it, and what has written to it since.
    operations: "list[Operation]" = field(default_factory=list)


@dataclass(frozen=True)
class View:
    """A tensor on such memory."""

    memory: Memory
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def on(self, storage: torch.UntypedStorage) -> Tensor:
        return torch.empty(0, dtype=self.dtype).set_(storage, self.offset, self.size, self.stride)

    @property
    def is_whole(self) -> bool:
        """Whether it covers its memory without a gap."""
        expected = 1
        for size, stride in sorted(zip(self.size, self.stride, strict=True), key=lambda pair: pair[1]):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return expected * self.dtype.itemsize == self.memory.bytes


@dataclass(eq=False)
class Operation:
    """One call, its large tensors as views."""

    number: int
    function: OpOverload
    arguments: tuple[tuple[object, ...], JsonObject]
    #: The random numbers' state before it; None if it draws none.
    random: Tensor | None
    #: What it made, by the place among its outputs.
    made: dict[int, View] = field(default_factory=dict)

    @property
    def inputs(self) -> list[View]:
        return [leaf for leaf in tree_leaves(self.arguments) if isinstance(leaf, View)]

    def fills(self, memory: Memory) -> bool:
        """Whether nothing of what was in `memory` before is left."""
        first = self.arguments[0][0] if self.arguments[0] else None
        whole = isinstance(first, View) and first.memory is memory and first.is_whole
        alone = whole and all(view.memory is not memory for view in self.inputs if view is not first)
        return any(view.memory is memory for view in self.made.values()) or (
            alone and self.function.overloadpacket in _FILLING
        )


class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records while it is entered; see the module."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memories: dict[int, Memory] = {}
        self.storages: list[torch.UntypedStorage] = []
        """Kept, so that no address is used again."""
        self.count = 0

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Arguments = (), kwargs: JsonObject | None = None
    ) -> object:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(map(self.view, tensors)) and (tensors or not _is_large_when_made(func, args, kwargs)):
            return func(*args, **kwargs)
        if _gives_no_tensor(func) or any(self.view(written) is None for written in _written(func, args, kwargs)):
            return func(*self._real(args), **self._real(kwargs))
        return self._recorded(func, args, kwargs)

    def view(self, tensor: Tensor) -> View | None:
        """Where a large tensor lies; None if it is real."""
        if tensor.layout != torch.strided:
            return None
        memory = self.memories.get(tensor.untyped_storage()._cdata)
        if memory is None:
            return None
        if tensor.is_conj() or tensor.is_neg():
            raise Unrecordable("a conjugate view of a large tensor")
        return View(memory, tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))

    def value(self, view: View) -> Tensor:
        """The tensor as the constructor has left it, in new memory."""
        return self._values([view])[0]

    def _recorded(self, func: OpOverload, args: Arguments, kwargs: JsonObject) -> object:
        if func.overloadpacket in _REPLACING:
            raise Unrecordable(f"{func.overloadpacket} of a large tensor")
        random = self._drawn(func, args, kwargs) if torch.Tag.nondeterministic_seeded in func.tags else None
        result = func(*_on_meta(args), **_on_meta(kwargs))
        kept = tree_map(lambda leaf: self._kept(leaf) if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        operation = Operation(self.count, func, kept, random)
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

    def _kept(self, tensor: Tensor) -> View | Tensor:
        """A real one as it is now: its maker may change it later."""
        return self.view(tensor) or tensor.detach().clone()

    def _drawn(self, func: OpOverload, args: Arguments, kwargs: JsonObject) -> Tensor:
        """The random numbers' state before the call, which is then made for its draws alone."""
        state = _generator(kwargs).get_state()
        if func.overloadpacket in _DRAWING:
            whole = args[0]
            func(torch.empty_strided(whole.shape, whole.stride(), dtype=whole.dtype), *args[1:], **kwargs)
        else:
            func(*self._real(args), **self._real(kwargs))
        return state

    def _real(self, tree: T) -> T:
        """The arguments with the values of the large tensors as they are now."""

        def real(leaf: object) -> object:
            view = self.view(leaf) if isinstance(leaf, Tensor) else None
            return leaf if view is None else self.value(view)

        values: T = tree_map(real, tree)
        return values

    def _values(self, views: list[View]) -> list[Tensor]:
        storages: dict[int, torch.UntypedStorage] = {}
        default = torch.default_generator.get_state()
        given: dict[torch.Generator, Tensor] = {}
        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            try:
                for operation in _needed(views):
                    self._do_again(operation, storages, given)
            finally:
                torch.default_generator.set_state(default)
                for generator, state in given.items():
                    generator.set_state(state)
        return [view.on(storages[id(view.memory)]) for view in views]

    def _do_again(
        self, operation: Operation, storages: dict[int, torch.UntypedStorage], given: dict[torch.Generator, Tensor]
    ) -> None:
        args, kwargs = tree_map(
            lambda leaf: leaf.on(storages[id(leaf.memory)]) if isinstance(leaf, View) else leaf, operation.arguments
        )
        if operation.random is not None:
            generator = _generator(kwargs)
            if generator is not torch.default_generator:
                given.setdefault(generator, generator.get_state())
            generator.set_state(operation.random)
        outputs = tree_leaves(operation.function(*args, **kwargs))
        for place, view in operation.made.items():
            output = outputs[place]
            if (tuple(output.shape), output.stride(), output.storage_offset()) != (view.size, view.stride, view.offset):
                raise Unrecordable(f"{operation.function} has another layout without the values")
            storages[id(view.memory)] = output.untyped_storage()


def _needed(views: list[View]) -> Iterator[Operation]:
    """What has to be done again, in its order."""
    needed: dict[int, Operation] = {}
    asked = [(view.memory, 1 << 62) for view in views]
    while asked:
        memory, before = asked.pop()
        for operation in reversed(memory.operations):
            if operation.number >= before:
                continue
            if operation.number not in needed:
                needed[operation.number] = operation
                asked += [(view.memory, operation.number) for view in operation.inputs]
            if operation.fills(memory):
                break
    return (needed[number] for number in sorted(needed))


def _is_large_when_made(func: OpOverload, args: Arguments, kwargs: JsonObject) -> bool:
    """Whether a call without tensors makes a large one on the CPU."""
    if not any(argument.name == "device" for argument in func._schema.arguments) or _gives_no_tensor(func):
        return False
    if torch.device(kwargs.get("device") or "cpu").type != "cpu" or kwargs.get("layout") not in (None, torch.strided):
        return False
    outputs = tree_leaves(func(*args, **_on_meta(kwargs | {"device": "cpu"})))
    return bool(sum(output.nbytes for output in outputs) >= LARGE)


def _gives_no_tensor(func: OpOverload) -> bool:
    return not any("Tensor" in str(value.type) for value in func._schema.returns)


def _written(func: OpOverload, args: Arguments, kwargs: JsonObject) -> list[Tensor]:
    """The tensors that a call changes."""
    written = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            written += [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return written


def _on_meta(tree: T) -> T:
    """The arguments as the meta device wants them."""

    def moved(leaf: object) -> object:
        if isinstance(leaf, Tensor) and not leaf.is_meta:
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
        return leaf

    result: T = tree_map(moved, tree)
    if isinstance(result, dict):
        result.pop("pin_memory", None)
        if (device := result.get("device")) is not None:
            if torch.device(device).type not in ("cpu", "meta"):
                raise Unrecordable(f"a large tensor is moved to {device}")
            result["device"] = torch.device("meta")
    return result


def _generator(kwargs: JsonObject) -> torch.Generator:
    return kwargs.get("generator") or torch.default_generator
