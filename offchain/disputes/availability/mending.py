"""A job's program, start and batches put together of what a store has and what the chain shows.

What the store has may be wrong anywhere, and what the chain shows is a stranger's: each part is
proven against the roots in the job's terms before it is used, and each object is verified whole
before it is kept. `offchain/commitments/known.py` says how a proof of one part tells where others
are wrong; so what is demanded next is the first part of each stretch that is.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from moot.contracts.model.types import Terms
from moot.contracts.reasons import Part
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.known import KnownNodes, Nodes
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import encode_header
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.datastore.mending import ProvenChunk, mend_tensor
from moot.offchain.datastore.objects import (
    BATCHES,
    PROGRAMS,
    STATES,
    TENSORS,
    compute_batches_root,
    name_object,
)
from moot.offchain.datastore.store import DataStore, bound_program
from moot.offchain.disputes.availability.calldata import Shown, ShownChunk, ShownOperator
from moot.offchain.disputes.availability.demands import Lack, Place, TensorProof
from moot.offchain.errors import CommitmentError, NotInStore, ProgramError, WrongContent
from moot.offchain.programs.decoding import Draft, decode_layout, decode_program, read_draft
from moot.offchain.programs.encoding import join_program
from moot.offchain.programs.graph import Slot
from moot.offchain.programs.roots import ProgramHeader, ProgramTree, hash_layout
from moot.offchain.providers.publication import get_program, list_headers, load_batches

Layout = tuple[Sequence[Slot], Sequence[Slot]]
"""The slots of a program's state, and of a batch."""
MOST_PLACES = 16
"""So many parts of a job are demanded at once."""
MOST_ROOTS = 1 << 22
"""Longer lists of roots are not put together: their roots alone would cost more than any bond."""


def mend_job(store: DataStore, terms: Terms, shown: Iterable[Shown]) -> Lack:
    """Have as much of a job in a store's folder as can be had.

    Args:
        store: a store, and the folder.
        terms: the job's.
        shown: what somebody has shown of it, right or wrong.

    Returns:
        What to demand next, a few parts at most, and how many parts have to be demanded at least;
        none once all that the terms commit to is in the folder. Each answer to what is demanded
        brings the whole job nearer.

    Raises:
        NotInStore: the store does not have the program's layout, which nobody can show.
        WrongContent: no store can have what is wanted: the program is not legal, or a tensor is not
            of its slot's type and shape.
        StoreUnavailable: the store stops in the middle; what has come is kept.
        StoreError: the disk fails, or a list is too long to be put together.
    """
    mend = _Mend(store, terms, [*shown])
    state, batch = mend.program()
    mend.start(state)
    mend.data(batch)
    places = tuple(mend.wanted[:MOST_PLACES])
    named = {place[:2] for place in places}
    tensors = {it: proof for it, proof in mend.tensors.items() if it in named}
    return Lack(places, len(mend.wanted), tensors)


@dataclass
class _Mend:
    """A job that is put together.

    Attributes:
        wanted: what to demand next.
        tensors: what shows that tensors have the chunks that are wanted, as in `Lack`.
    """

    store: DataStore
    terms: Terms
    shown: Sequence[Shown]
    wanted: list[Place] = field(default_factory=list)
    tensors: dict[tuple[int, int], TensorProof] = field(default_factory=dict)

    def program(self) -> Layout:
        """Have the program, as far as it can be had, and return its slots."""
        store, terms = self.store, self.terms
        try:
            program = get_program(store, terms)
        except (NotInStore, WrongContent) as error:
            problem = error
        else:
            return program.state, program.batch
        most_bytes = bound_program(terms.operators, terms.state_slots + terms.batch_slots)
        for header in list_headers(terms):
            data = store.peek(PROGRAMS, header.root, most_bytes)
            draft = read_draft(data, header.arithmetic, terms.operators)
            if draft and hash_layout(draft.layout, header.arithmetic) == terms.layout:
                self._mend_program(header, draft)
                return decode_layout(draft.layout)
        # Names of slots are in no proof: whatever is shown, the program can't be put together.
        raise problem

    def start(self, slots: Sequence[Slot]) -> None:
        """Have the tensors of the start, as far as they can be had."""
        count, root = self.terms.state_slots, self.terms.start_root
        known = KnownNodes(
            Tag.STATE_NODE, count, lambda top: hash_root(Tag.STATE_ROOT, count, top) == root
        )
        roots = self._mend_list(STATES, Part.START, root, known)
        self._mend_tensors(Part.START, known.tag, roots, slots)

    def data(self, slots: Sequence[Slot]) -> None:
        """Have the batches, as far as they can be had."""
        terms = self.terms
        count = terms.steps * len(slots)
        root = compute_batches_root(count, terms.data_top)
        try:
            load_batches(self.store, slots, terms.steps, root)
        except (NotInStore, WrongContent):
            known = KnownNodes(
                Tag.DATA_NODE,
                count,
                lambda top: top == terms.data_top,
            )
            roots = self._mend_list(BATCHES, Part.DATA, root, known)
            self._mend_tensors(Part.DATA, known.tag, roots, slots)

    def _mend_program(self, header: ProgramHeader, draft: Draft) -> None:
        """Put the program together of a draft and of operators, or want some of these."""
        terms, store = self.terms, self.store
        known = KnownNodes(Tag.PROGRAM_NODE, terms.operators, lambda top: top == header.top)
        operators = [*draft.operators]
        operators += [(b"", "", "")] * (terms.operators - len(operators))
        for part in self.shown:
            if isinstance(part, ShownOperator):
                with suppress(CommitmentError):
                    known.learn(part.leaf, part.index, part.proof)
                    operators[part.index] = (part.encoding, *operators[part.index][1:])
        leaves = [keccak256(bytes([Tag.OPERATOR]) + encoding) for encoding, *_ in operators]
        if self._want_wrong(Part.PROGRAM, known, Tree(Tag.PROGRAM_NODE, leaves)):
            return
        data = join_program(header.arithmetic, draft.layout, [*_name_all(operators)])
        try:
            program = decode_program(data)
        except ProgramError as error:
            name, problem = name_object(PROGRAMS, header.root), f"it is not legal: {error}"
            raise WrongContent(store.url, name, problem) from error
        assert ProgramTree(program).header.root == header.root, "its parts are those of the root"
        store.keep_bytes(PROGRAMS, header.root, data)

    def _mend_list(
        self, kind: str, part: Part, root: Digest, known: KnownNodes
    ) -> Sequence[Digest]:
        """Return the roots of tensors of a part of the job, none if parts of them are wanted."""
        store, count = self.store, known.count
        try:
            return store.get_roots(kind, root, count)
        except (NotInStore, WrongContent):
            pass
        if count > MOST_ROOTS:
            problem = f"{count:,} roots are too many to be put together"
            raise WrongContent(store.url, name_object(kind, root), problem)
        for shown in self.shown:
            if isinstance(shown, ShownChunk) and shown.part == part:
                with suppress(CommitmentError):
                    known.learn(shown.compute_root(), shown.index, shown.proof)
        data = store.peek(kind, root, DIGEST_BYTES * count).ljust(DIGEST_BYTES * count, b"\0")
        roots = [
            known.get(0, it) or data[it * DIGEST_BYTES : (it + 1) * DIGEST_BYTES]
            for it in range(count)
        ]
        if self._want_wrong(part, known, Tree(known.tag, roots)):
            return ()
        store.keep_bytes(kind, root, b"".join(roots))
        return roots

    def _mend_tensors(
        self, part: Part, tag: Tag, roots: Sequence[Digest], slots: Sequence[Slot]
    ) -> None:
        """Have tensors of a part of the job, whose tree has a tag, as far as they can be had."""
        store, first = self.store, dict[Digest, int]()
        for index, root in enumerate(roots):
            first.setdefault(root, index)
        proven, tree = self._sort_chunks(), None
        for root, index in first.items():
            if store.disk.get_size(name_object(TENSORS, root)) is not None:
                continue
            slot = slots[index % len(slots)]
            try:
                store.fetch_tensors([root], [slot])
            except (NotInStore, WrongContent):
                header = encode_header(slot.dtype, slot.shape)
                chunks = [it for said, it in proven.get(root, ()) if said == header]
                if len(chunks) < len(proven.get(root, ())):
                    name = name_object(TENSORS, root)
                    problem = f"it is not what slot {slot.name} of the program takes"
                    raise WrongContent(store.url, name, problem) from None
                wanted = mend_tensor(store.place, store.disk, root, header, chunks)
                self.wanted += [(part.value, index, chunk) for chunk in wanted.chunks]
                if wanted.chunks and wanted.top is not None:
                    tree = tree or Tree(tag, roots)
                    proof = TensorProof(header, wanted.top, tuple(tree.proof(index)))
                    self.tensors[part.value, index] = proof

    def _sort_chunks(self) -> dict[Digest, list[tuple[bytes, ProvenChunk]]]:
        """Return chunks that were shown, with their tensor's header, by their tensor's root."""
        found: dict[Digest, list[tuple[bytes, ProvenChunk]]] = {}
        for it in self.shown:
            if isinstance(it, ShownChunk):
                with suppress(CommitmentError):
                    chunk = ProvenChunk(it.chunk, it.content, it.chunk_proof)
                    found.setdefault(it.compute_root(), []).append((it.header, chunk))
        return found

    def _want_wrong(self, part: Part, known: KnownNodes, nodes: Nodes) -> bool:
        """Want the first part of each stretch that is not right; whether there is any."""
        wrong = [index << level for level, index in known.list_wrong(nodes)]
        self.wanted += [(part.value, index, 0) for index in wrong]
        return bool(wrong)


def _name_all(
    operators: Sequence[tuple[bytes, str, str]],
) -> Iterator[tuple[bytes, str, str]]:
    """Yield operators each of which has a name of its own; names are in no proof."""
    names = set[str]()
    for place, (encoding, name, line) in enumerate(operators):
        own = name
        while not own or own in names:
            own = f"{own or 'operator'}.{place}"
        names.add(own)
        yield encoding, own, line
