"""The gas of a client's promise and of demands upon it, in a job as large as jobs can be.

Trees are synthetic: a proof of any siblings leads to a top, which the job then names. What is shown
is in the middle of each tree, so that its proof has a sibling at every level.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moot.contracts.deployment import deploy_availability, deploy_referee
from moot.contracts.model.abi import pack_args
from moot.contracts.model.answers import MIN_DEPOSIT_WEI, Subject, make_subject
from moot.contracts.model.types import MIN_BOND_WEI, NOBODY, ZERO, Terms
from moot.contracts.reasons import LeafMode, Part
from moot.offchain.arithmetic.functions import DType
from moot.offchain.chain import Chain
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import encode_header, hash_chunk, hash_tensor
from moot.offchain.commitments.tree import hash_root
from moot.offchain.disputes.availability.demands import Place, TensorProof, list_demand
from moot.offchain.programs.limits import (
    MAX_NODE_BYTES,
    MAX_OPERATORS,
    MAX_SLOTS,
    MAX_STEPS,
    MAX_TENSOR_BYTES,
)
from moot.sim.synthetic.proofs import compute_top, draw_siblings

BOND_WEI = 10**18
CONTENT = b"\xab" * CHUNK_BYTES
ENCODING = b"\xab" * MAX_NODE_BYTES
MAX_CHUNKS = MAX_TENSOR_BYTES // CHUNK_BYTES
LARGEST = encode_header(DType.BOOL, (MAX_CHUNKS * CHUNK_BYTES - 1, *[1] * 7))
USUAL = encode_header(DType.FLOAT32, (1 << 10, 1 << 10))


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a job, and the header of the tensors that it shows."""

    operators: int
    slots: int
    steps: int
    header: bytes
    chunks: int
    encoding: bytes


SIZES = {
    "": Size(1 << 12, 1 << 6, 1 << 20, USUAL, 1 << 14, ENCODING[:200]),
    "-longest": Size(MAX_OPERATORS, MAX_SLOTS, MAX_STEPS, LARGEST, MAX_CHUNKS, ENCODING),
}
"""A job like the reference, and one of which every proof is as long as can be."""


def measure_promises(chain: Chain) -> Iterator[tuple[str, int]]:
    """Yield what each call costs, in gas, by its name and, behind that, the size of the job."""
    client = chain.accounts[0]
    referee = deploy_referee(chain, client)
    contract = deploy_availability(chain, client)
    for job_id, (name, size) in enumerate(SIZES.items()):
        job = Job(size)
        referee.transact("open_job", *pack_args([job.terms]), sender=client, value=0)
        subject = make_subject(job.terms, referee.address, job_id)
        for call, gas in _play(chain, contract, job, subject):
            yield f"{call}{name}", gas


class Job:
    """The terms of a job of some size, and what can be shown of it."""

    def __init__(self, size: Size) -> None:
        self.size, tensor = size, size.header
        place = size.chunks // 3
        self.chunk = (place, tensor, CONTENT, draw_siblings(size.chunks))
        top = compute_top(Tag.TENSOR_NODE, hash_chunk(CONTENT), place, size.chunks)
        root = hash_tensor(tensor, top)
        self.batches = size.steps * size.slots
        self.tensor = TensorProof(tensor, top, draw_siblings(self.batches))
        operator = keccak256(bytes([Tag.OPERATOR]) + size.encoding)
        start = compute_top(Tag.STATE_NODE, root, size.slots // 3, size.slots)
        self.terms = Terms(
            operators=size.operators,
            state_slots=size.slots,
            batch_slots=size.slots,
            layout=ZERO,
            program_top=compute_top(
                Tag.PROGRAM_NODE, operator, size.operators // 3, size.operators
            ),
            start_root=hash_root(Tag.STATE_ROOT, size.slots, start),
            data_top=compute_top(Tag.DATA_NODE, root, self.batches // 3, self.batches),
            steps=size.steps,
            checkpoint_every=1,
            leaf_mode=LeafMode.SCALAR,
            verifier=NOBODY,
            bond_wei=MIN_BOND_WEI,
            commit_blocks=1,
            reveal_blocks=1,
            window_blocks=1,
            clock_blocks=1,
            increment_blocks=1,
        )

    def list_answers(self) -> Iterator[tuple[str, Place, tuple[Any, ...]]]:
        """Yield the calls that show parts: the call, what is demanded, and the arguments."""
        size, data = self.size, (Part.DATA.value, self.batches // 3)
        index = size.operators // 3
        shown = (index, size.encoding, draw_siblings(size.operators))
        yield "show_operator", (Part.PROGRAM.value, index, 0), shown
        yield "show_chunk", (*data, self.chunk[0]), (*data, *self.chunk, self.tensor.proof)


def _play(chain: Chain, contract: Any, job: Job, subject: Subject) -> Iterator[tuple[str, int]]:
    client, asker, other = chain.accounts[:3]
    own = pack_args([subject])

    def send(name: str, sender: str, *args: Any, value: int = 0) -> tuple[str, int]:
        receipt = contract.transact(name, *own, *args, sender=sender, value=value)
        return name, receipt.gas_used

    last_block = chain.block_number() + 12
    yield send("promise", client, MIN_DEPOSIT_WEI, 3, last_block, value=BOND_WEI)
    for call, place, args in job.list_answers():
        demanded = list_demand(place, job.tensor)
        name, gas = send("demand", asker, *pack_args(demanded), value=MIN_DEPOSIT_WEI)
        yield (f"{name}-later" if place[2] else name), gas
        yield send(call, other, *args)
    if job.size.chunks == MAX_CHUNKS:
        place = (Part.START, 0, 0)
        send("demand", asker, *place, b"", ZERO, (), value=MIN_DEPOSIT_WEI)
        chain.mine(3)
        yield send("break_promise", other, *place)
        yield send("reclaim", asker, *place)
    else:
        chain.mine(last_block - chain.block_number())
        yield send("withdraw", client)
