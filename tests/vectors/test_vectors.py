"""Every vector, by the readable definition and by the fast executor, from the files alone."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.backends.cpu.kernels.philox import uniform
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    compute_tensor_root,
    encode_elements,
)
from moot.offchain.commitments.tree import Tree
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.programs.decoding import decode_node
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Program
from tests.quick import every
from tests.vectors.commitments import ROOTS
from tests.vectors.files import FOLDER, read
from tests.vectors.notation import read_node, read_program, read_tensor, wrap
from tests.vectors.programs import Run, describe, trace
from tests.vectors.tensors import reads, row

Case = dict[str, Any]

MEGABYTE = 1 << 20
RUNS = ("functions.json", "mlp.json", "mlp-bf16.json", "cnn.json", "gpt2.json")


@cache
def cases(name: str) -> Mapping[str, Case]:
    """Return the cases of a file by their names."""
    return {case.get("name") or _name_scalar(case): case for case in read(name)["cases"]}


def _name_scalar(case: Case) -> str:
    return f"{case['function']} ({', '.join(case['operands'])}) -> {case['result']}"


SCALARS = [name for name in cases("scalars.json") if not name.startswith("uniform")]


def read_rows(case: Case) -> list[list[int]]:
    """Return the rows of a scalar function's case as numbers."""
    return [[int(word, 16) for word in words.split()] for words in case["rows"]]


def get_types(case: Case) -> tuple[list[DType], DType]:
    """Return the types of a scalar function's operands, and of its result."""
    return [DType[name.upper()] for name in case["operands"]], DType[case["result"].upper()]


def same_bits(left: Array, right: Array) -> bool:
    """Whether two tensors are of one type and shape and are committed as the same bytes."""
    same = (left.dtype, left.shape) == (right.dtype, right.shape)
    return same and encode_elements(left).tobytes() == encode_elements(right).tobytes()


def test_the_files_are_small() -> None:
    """All vectors together have less than a megabyte."""
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MEGABYTE


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_by_the_definition(name: str) -> None:
    """The readable definition gives every result of a scalar function."""
    case = cases("scalars.json")[name]
    operand_types, result_type = get_types(case)
    function = Function[case["function"].upper()]
    assert function == case["number"]
    for *operands, result in read_rows(case):
        assert evaluate(function, operand_types, result_type, operands) == result


@pytest.mark.parametrize("name", every(6, SCALARS))
def test_scalars_by_the_executor(name: str) -> None:
    """A map gives every result of a scalar function, all rows at once."""
    case = cases("scalars.json")[name]
    operand_types, result_type = get_types(case)
    *columns, results = zip(*read_rows(case), strict=True)
    inputs = [
        np.array(column, f"<u{dtype.width}").view(NUMPY_TYPES[dtype])
        for column, dtype in zip(columns, operand_types, strict=True)
    ]
    count = len(results)
    operands = tuple(reads(i, dtype, row(count, 0)) for i, dtype in enumerate(operand_types))
    function = Function[case["function"].upper()]
    program = wrap(Node(Kind.MAP, function, result_type, (count,), operands), inputs)
    state = [np.zeros(count, NUMPY_TYPES[result_type])]
    (output,) = Executor(program).run(state, inputs, 0)
    found = encode_elements(output).view(f"<u{result_type.width}").tolist()
    assert found == list(results)


def test_uniform_numbers() -> None:
    """The definition and the kernel give the uniform number of every place."""
    (case,) = [case for name, case in cases("scalars.json").items() if name.startswith("uniform")]
    for seed, step, stream, element, result in read_rows(case):
        assert uniform_bits(seed, step, stream, element) == result
        if element < 1 << 12:
            assert uniform(seed, step, stream, element + 1).view(np.uint32)[element] == result


def make_program(case: Case) -> tuple[Program, list[Array]]:
    """Return an operator's program, decoded from its encoding, and its inputs."""
    node = decode_node(bytes.fromhex(case["expect"]["encoding"]), ORDERED)
    inputs = [read_tensor(tensor) for tensor in case["given"]["inputs"]]
    return wrap(node, inputs), inputs


@pytest.mark.parametrize("name", every(16, cases("operators.json")))
def test_operators(name: str) -> None:
    """An operator has its encoding, and both executors give its output and the output's root."""
    case = cases("operators.json")[name]
    expected = read_tensor(case["expect"]["output"])
    node = read_node(case["given"]["operator"])
    assert encode_node(node).hex() == case["expect"]["encoding"]
    program, inputs = make_program(case)
    assert program.nodes[0] == node
    state, step = [np.zeros(node.shape, NUMPY_TYPES[node.dtype])], case["given"]["step"]
    for run in (run_readably(program), Executor(program).run):
        (output,) = run(state, inputs, step, None)
        assert same_bits(output, expected)
        assert compute_tensor_root(output).hex() == case["expect"]["root"]


@pytest.mark.parametrize("name", cases("commitments.json"))
def test_commitments(name: str) -> None:
    """Hashing what is given gives what is expected."""
    case = cases("commitments.json")[name]
    assert commit(case["given"]) == case["expect"]


def commit(given: Case) -> Case:
    """Return the commitment that a vector asks for."""
    match given["what"]:
        case "keccak256":
            return {"digest": keccak256(bytes.fromhex(given["message"])).hex()}
        case "tensor":
            tensor = read_tensor(given["tensor"])
            canonical = encode_elements(tensor).tobytes()
            root = {"root": compute_tensor_root(tensor).hex()}
            return root if canonical == tensor.tobytes() else {"bytes": canonical.hex()} | root
        case "tree":
            leaves = [bytes.fromhex(leaf) for leaf in given["leaves"]]
            tree = Tree(Tag(given["tag"]), leaves)
            proof = [node.hex() for node in tree.proof(len(leaves) - 1)]
            return {"top": tree.top.hex(), "proof_of_last": proof}
        case "fold":
            return {"digest": keccak256(bytes([Tag.FOLD]) + bytes.fromhex(given["values"])).hex()}
        case what:
            roots = [bytes.fromhex(root) for root in given["roots"]]
            return {"root": ROOTS[what](roots).hex()}


def check_run(case: Case, run: Run, steps: int) -> None:
    """Compare a run of some steps with the states that are expected."""
    given, expect = case["given"], case["expect"]
    initial = [read_tensor(tensor) for tensor in given["initial_state"]]
    batches = [[read_tensor(tensor) for tensor in batch] for batch in given["batches"][:steps]]
    found = trace(run, initial, batches, whole="trace_leaves" in expect)
    whole = steps >= len(given["batches"])
    keys = found.keys() if whole else {"trace_top", "trace_leaves"} & found.keys()
    assert {key: found[key] for key in keys} == {key: expect[key] for key in keys}
    assert found["state_roots"] == expect["state_roots"][: len(batches) + 1]


def run_cases() -> list[tuple[str, str]]:
    """Return the file and the name of every program."""
    return [(file, name) for file in RUNS for name in cases(file)]


@pytest.mark.parametrize(("file", "name"), run_cases())
def test_programs_by_the_executor(file: str, name: str) -> None:
    """A program has its root, and the fast executor goes through its states with any threads."""
    case = cases(file)[name]
    program = read_program(case["given"]["program"])
    identity = describe(program)
    assert identity == {key: case["expect"][key] for key in identity}
    for threads in (1, 2):
        check_run(case, Executor(program, threads).run, len(case["given"]["batches"]))


def run_readably(program: Program) -> Run:
    """Return the readable executor of a program."""

    def run(
        state: Sequence[Array], batch: Sequence[Array], step: int, observe: Any = None
    ) -> list[Array]:
        return run_step(program, state, batch, step, observe)

    return run


@pytest.mark.parametrize(("file", "name"), run_cases())
def test_programs_by_the_definition(file: str, name: str) -> None:
    """The readable executor goes through the first states of a program."""
    case = cases(file)[name]
    program = read_program(case["given"]["program"])
    check_run(case, run_readably(program), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), run_cases())
def test_programs_by_the_definition_to_the_end(file: str, name: str) -> None:
    """The readable executor goes through all states of a program."""
    case = cases(file)[name]
    program = read_program(case["given"]["program"])
    check_run(case, run_readably(program), len(case["given"]["batches"]))


def test_a_wrong_bit_is_seen() -> None:
    """A run whose batch differs in one bit ends in another history."""
    (case,) = cases("mlp.json").values()
    given = case["given"]
    initial = [read_tensor(tensor) for tensor in given["initial_state"]]
    batches = [[read_tensor(tensor) for tensor in batch] for batch in given["batches"]]
    bits = batches[2][0].copy()
    bits.view(np.uint32).reshape(-1)[0] ^= 1
    batches[2] = [bits, *batches[2][1:]]
    found = trace(Executor(read_program(given["program"])).run, initial, batches, whole=False)
    expected = case["expect"]["state_roots"]
    assert [root in expected for root in found["state_roots"]] == [True] * 3 + [False] * 4
