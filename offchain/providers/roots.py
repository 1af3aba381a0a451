"""The roots of a step's outputs and of states: what is hashed, and what is known without that."""

from collections.abc import Mapping, Sequence

from moot.offchain.commitments.tensors import (
    Array,
    TensorCommitment,
    commit_tensors,
    dtype_of,
    encode_header,
    hash_tensor,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.execution.executor import Patch
from moot.offchain.execution.residents import Resident
from moot.offchain.planning.order import Storage, find_storages
from moot.offchain.programs.graph import Origin, Program

_TOGETHER_BYTES = 1 << 25
"""The bytes of outputs that are hashed together, at least: threads wait for each other once."""


def _commit(tensors: Mapping[int, Array | Resident]) -> dict[int, TensorCommitment]:
    """Return the commitments to tensors, arrays or others where they are."""
    arrays = {slot: x for slot, x in tensors.items() if not isinstance(x, Resident)}
    made = dict(zip(arrays, commit_tensors([*arrays.values()]), strict=True))
    made |= {slot: x.commitment for slot, x in tensors.items() if isinstance(x, Resident)}
    return made


class OutputRoots:
    """The roots of a step's outputs; elements that several of them share are hashed once.

    The output of an operator that only names a tensor anew, as a view does, has that tensor's
    elements, unless a patch replaces some output on the way. Outputs wait for each other, since
    small ones are hashed together as fast as a large one.

    Args:
        program: the program that is run.
        patch: the outputs that are replaced.
        before: the roots of the tensors of the state before the step; none if they are not known.
        after: those of the state after it, likewise.
    """

    def __init__(
        self, program: Program, patch: Patch, before: Sequence[Digest], after: Sequence[Digest]
    ) -> None:
        self._storages = find_storages(program)
        self._replaced = {self._storages[index] for index in patch}
        sinks = self._storages[program.first_sink :]
        known = [
            *(((Origin.STATE, slot), slot, root) for slot, root in enumerate(before)),
            *((sinks[slot], slot, root) for slot, root in enumerate(after)),
        ]
        self._known = {(storage, program.state[slot].shape): root for storage, slot, root in known}
        self._roots: dict[int, Digest] = {}
        self._tops: dict[Storage | int, Digest] = {}
        self._named: dict[int, tuple[bytes, Storage | int]] = {}
        self._waiting: dict[Storage | int, Array] = {}
        self._waiting_bytes = 0

    def observe(self, index: int, output: Array) -> None:
        """Hash an operator's output, now or with others."""
        storage = self._storages[index]
        is_own = storage in self._replaced
        if not is_own and (storage, output.shape) in self._known:
            self._roots[index] = self._known[storage, output.shape]
            return
        elements: Storage | int = index if is_own else storage
        self._named[index] = encode_header(dtype_of(output), output.shape), elements
        if elements not in self._tops and elements not in self._waiting:
            self._waiting[elements] = output
            self._waiting_bytes += output.nbytes
            if self._waiting_bytes >= _TOGETHER_BYTES:
                self._hash()

    def _hash(self) -> None:
        """Hash what waits."""
        made = commit_tensors([*self._waiting.values()])
        tops = [commitment.top for commitment in made]
        self._tops.update(zip(self._waiting, tops, strict=True))
        self._waiting.clear()
        self._waiting_bytes = 0

    def list(self) -> list[Digest]:
        """Return the roots of all outputs, which have been observed, in the operators' order."""
        self._hash()
        for index, (header, elements) in self._named.items():
            self._roots[index] = hash_tensor(header, self._tops[elements])
        return [self._roots[index] for index in range(len(self._storages))]


class TensorRoots:
    """The roots of a state's tensors; a step hashes only tensors that may have changed.

    A tensor that the program makes its own successor (a frozen parameter, a constant) keeps its
    root for as long as every step is the program's.

    Args:
        program: the program that is run.
        known: the roots of the state before the first step; none if they are not known.

    Attributes:
        kept: the slots of the tensors that every step of the program leaves as they are.
        made: what was hashed last, by its root.
    """

    def __init__(self, program: Program, known: Sequence[Digest] = ()) -> None:
        sinks = find_storages(program)[program.first_sink :]
        self.kept = [slot for slot, sink in enumerate(sinks) if sink == (Origin.STATE, slot)]
        self._known = {slot: known[slot] for slot in self.kept if known}
        self.made: dict[Digest, TensorCommitment] = {}

    def hash(self, state: Sequence[Array]) -> list[Digest]:
        """Return the roots of the state's tensors."""
        new = _commit({slot: x for slot, x in enumerate(state) if slot not in self._known})
        self.made = {commitment.root: commitment for commitment in new.values()}
        roots = [new[slot].root if slot in new else self._known[slot] for slot in range(len(state))]
        self._known = {slot: roots[slot] for slot in self.kept}
        return roots

    def forget(self) -> None:
        """Hash everything again next time: a step was not the program's."""
        self._known.clear()
