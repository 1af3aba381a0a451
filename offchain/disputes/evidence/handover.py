"""Evidence as members of a match hand it over: a small object, and tensors by their roots.

The object has a name that anybody can tell who reads the match on the chain, and counts if it is
proven against the chain; so it does not matter who serves it. All integers are big-endian.

    first line | operator | layout | proof in the program | state before the step | its proof
    | operands u8 | operand ... | log

    operator   bytes u16 | encoding
    layout     bytes u32 | encoding
    proof      siblings u8 | sibling ...
    operand    0 u8, for a constant | 1 u8, header of the tensor, the node over its chunks, proof
    log        0 u8 | 1 u8, bytes u32, the operator's entries, proof, proof of the log's root
"""

from collections.abc import Sequence

from moot.contracts.model.types import Facts, Terms
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import EVIDENCE, TensorShape, decode_header, name_object
from moot.offchain.datastore.store import DataStore
from moot.offchain.disputes.evidence.rulings import (
    Evidence,
    LogEvidence,
    ProvenTensor,
    check,
    collect,
)
from moot.offchain.errors import CommitmentError, ProgramError, UnprovenEvidence
from moot.offchain.programs.cost import compute_operator_cost
from moot.offchain.programs.decoding import Reader
from moot.offchain.programs.graph import Node, Slot
from moot.offchain.programs.limits import MAX_NODE_BYTES, MAX_OPERANDS, MAX_RANK, MAX_TEXT_BYTES
from moot.offchain.providers.publication import MAX_LOG_BYTES
from moot.offchain.providers.testimony import Testimony
from moot.offchain.verifier.bounds import DEFAULT, Bound

FIRST_LINE = b"moot evidence 1\n"

_HEADER_BYTES = 2 + 8 * MAX_RANK
_PROOF_BYTES = 1 + DIGEST_BYTES * 255
_PROOFS = 4 + MAX_OPERANDS
"""In the program, in the history, in the log, among the data; and of each operand."""


def name_evidence(place: Facts, side: int, claim: Digest) -> Digest:
    """Return the name of the evidence about an operator that is proven against one side's trees.

    Args:
        place: what the match has found out.
        side: the side.
        claim: the top of its history.
    """
    roots = (claim, place.intervals[side], place.traces[side])
    numbers = (place.first_step, place.step, place.operator)
    return keccak256(
        FIRST_LINE + b"".join(roots) + b"".join(number.to_bytes(8, "big") for number in numbers)
    )


def hand_over(
    store: DataStore, run: Testimony, terms: Terms, place: Facts, side: int
) -> int | None:
    """Put all that the verifier needs to rule on a match into a store that is served.

    Args:
        store: the store.
        run: the member's.
        terms: the job's.
        place: what the match has found out.
        side: the member's.

    Returns:
        How many bytes the verifier has to fetch; None if all of it is there already.

    Raises:
        UnprovenEvidence: the member has not the trees to which it has committed.
        StoreError: the disk fails.
    """
    claim = run.history.top
    name = name_evidence(place, side, claim)
    if store.disk.get_size(name_object(EVIDENCE, name)) is not None:
        return None
    evidence, operands = collect(run, place, side)
    check(evidence, terms, place, claim)
    store.put_tensors(array for array in operands if array is not None)
    data = encode_evidence(evidence)
    store.put_bytes(EVIDENCE, name, data)
    return len(data) + count_bytes(evidence)


def fetch_evidence(
    store: DataStore,
    terms: Terms,
    place: Facts,
    side: int,
    claim: Digest,
    bound: Bound = DEFAULT,
) -> Evidence:
    """Have the evidence that is proven against one side's trees in a store's folder, all of it.

    Nothing is fetched that is not proven, or larger than the program says, or above the bound.

    Raises:
        NotInStore, StoreUnavailable, WrongContent: it is not to be had, or something else is.
        CostBoundExceeded: the operator costs more than the bound.
        StoreError: the disk fails.
    """
    found: list[tuple[Evidence, Node]] = []

    def check_bytes(data: bytes) -> None:
        try:
            evidence = decode_evidence(data, side)
            found[:] = [(evidence, check(evidence, terms, place, claim).node)]
        except (ProgramError, UnprovenEvidence) as error:
            raise CommitmentError(str(error)) from error

    name = name_evidence(place, side, claim)
    store.get_bytes(EVIDENCE, name, get_limit(terms), check_bytes)
    ((evidence, node),) = found
    bound.require(compute_operator_cost(node))
    shown = [it for it in evidence.shown if it is not None]
    store.fetch_tensors([it.root for it in shown], [_get_slot(it) for it in shown])
    return evidence


def load_operands(store: DataStore, evidence: Evidence) -> Sequence[Array | None]:
    """Return what the operator reads, from a store that has it (None for constants)."""
    return [
        None if it is None else store.get_tensor(it.root, _get_slot(it)) for it in evidence.shown
    ]


def count_bytes(evidence: Evidence) -> int:
    """Return the bytes of the tensors that the operator reads, as a store has them."""
    sizes = {it.root: decode_header(it.header).file_bytes for it in evidence.shown if it}
    return sum(sizes.values())


def _get_slot(shown: ProvenTensor) -> Slot:
    found: TensorShape = decode_header(shown.header)
    return Slot("", found.dtype, found.shape)


def get_limit(terms: Terms) -> int:
    """Return the most bytes that the evidence of a job may have, besides tensors."""
    layout = 8 + (terms.state_slots + terms.batch_slots) * (2 + MAX_TEXT_BYTES + _HEADER_BYTES)
    operands = MAX_OPERANDS * (1 + _HEADER_BYTES + DIGEST_BYTES)
    fixed = len(FIRST_LINE) + 2 + MAX_NODE_BYTES + 4 + DIGEST_BYTES + 2 + 4
    log = MAX_LOG_BYTES if terms.batch_slots else 0
    return fixed + layout + operands + log + _PROOFS * _PROOF_BYTES


def encode_evidence(evidence: Evidence) -> bytes:
    """Return the bytes of an object with evidence."""
    parts = [
        FIRST_LINE,
        *(len(evidence.encoding).to_bytes(2, "big"), evidence.encoding),
        *(len(evidence.layout).to_bytes(4, "big"), evidence.layout),
        _encode_proof(evidence.program_proof),
        *(evidence.before, _encode_proof(evidence.before_proof)),
        bytes([len(evidence.shown)]),
    ]
    for shown in evidence.shown:
        parts.append(bytes([shown is not None]))
        if shown is not None:
            parts += [shown.header, shown.top, _encode_proof(shown.proof)]
    log = evidence.log
    parts.append(bytes([log is not None]))
    if log is not None:
        parts += [len(log.entries).to_bytes(4, "big"), log.entries]
        parts += [_encode_proof(log.proof), _encode_proof(log.slot_proof)]
    return b"".join(parts)


def _encode_proof(proof: Sequence[Digest]) -> bytes:
    return bytes([len(proof)]) + b"".join(proof)


def decode_evidence(data: bytes, side: int) -> Evidence:
    """Return the evidence of an object, not proven yet; `ProgramError` if there is none."""
    if not data.startswith(FIRST_LINE):
        raise ProgramError("this is no evidence of a version that we know")
    reader = Reader(data[len(FIRST_LINE) :])
    encoding = reader.take(reader.integer(2))
    layout = reader.take(reader.integer(4))
    program_proof = _read_proof(reader)
    before, before_proof = reader.take(DIGEST_BYTES), _read_proof(reader)
    shown = tuple(_read_tensor(reader) for _ in range(reader.integer(1)))
    log = None
    if _read_flag(reader):
        entries = reader.take(reader.integer(4))
        log = LogEvidence(entries, _read_proof(reader), _read_proof(reader))
    reader.finish()
    return Evidence(side, encoding, program_proof, layout, before, before_proof, shown, log)


def _read_tensor(reader: Reader) -> ProvenTensor | None:
    if not _read_flag(reader):
        return None
    head = reader.take(2)
    header = head + reader.take(8 * head[1])
    return ProvenTensor(header, reader.take(DIGEST_BYTES), _read_proof(reader))


def _read_proof(reader: Reader) -> tuple[Digest, ...]:
    return tuple(reader.take(DIGEST_BYTES) for _ in range(reader.integer(1)))


def _read_flag(reader: Reader) -> bool:
    flag = reader.integer(1)
    if flag > 1:
        raise ProgramError(f"{flag} is no flag; ask the sender again")
    return flag == 1
