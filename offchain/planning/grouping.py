"""The grouping of operators: connected ones that fit on one matrix run together."""

from collections.abc import Collection, Mapping, Sequence

from moot.offchain.planning.back_to_back import BackToBack, join_products
from moot.offchain.planning.chains import Chain, find_chains
from moot.offchain.planning.gathers import find_fusible, is_in_columns
from moot.offchain.planning.preconditions import make_form
from moot.offchain.planning.readings import as_fused_map, is_identity, is_turned_copy
from moot.offchain.planning.roles import (
    EXPRESSIBLE,
    FEW_ROWS,
    SMALL_ELEMENTS,
    Folded,
    Group,
    Member,
    Role,
    as_folded,
    as_picked,
    find_cuts,
    is_broadcast,
    is_nested,
    is_one_hot,
)
from moot.offchain.planning.selections import Selection, find_selection
from moot.offchain.planning.sorts import Sort, find_sorts
from moot.offchain.planning.vertical import Vertical, find_stack, is_fold_of
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program

_MAX_MEMBERS = 64
_WINDOW = 96
"""The greatest distance of a member behind the first member of its group, in operators."""

_LEAST_ELEMENTS = 1 << 10
"""Elements of all members, and steps of their folds, that are worth a kernel of their own."""

_SMALL_OPERATOR = 16
"""Elements times fold steps of an operator that may be computed early, so that others fuse."""

_MAX_EARLY = 16
"""The greatest number of operators that are computed early for a group."""

_MAX_COLUMNS = 1 << 17
"""Columns that are folded at once, and not in lanes: a row of them is kept."""


_MOST_IN_SEGMENTS = 1 << 18
"""Elements of a row in segments that the second-level cache holds from one pass to the next."""

_PLAIN = frozenset({Kind.MAP, Kind.GATHER})
"""Kinds of members that are as well on rows of any length."""

Fused = Group | Vertical | Selection | Sort | Chain | BackToBack
"""Operators that one kernel computes, in one of the forms that have kernels."""

Unit = Fused | int
"""Operators that one kernel computes, or the index of one operator alone."""


def group(
    program: Program,
    needed: Sequence[int],
    wanted: Collection[int],
    alone: Collection[int],
    least_elements: int | None = None,
    known: Collection[int] = (),
) -> list[Unit]:
    """Return an order of these operators in which those that fit together are together.

    A group is computed where its first member was: its members read what is there by then, and
    each other element by element, or row by row. Sorts and chains are where their last member was.

    Args:
        program: the program.
        needed: indices of the operators, ascending.
        wanted: those whose outputs are wanted, whoever reads them.
        alone: those that are not computed together with others.
        least_elements: elements that are worth a kernel, as many as usual if None.
        known: others that these read, whose outputs are there; they are alone, too.
    """
    least_elements = _LEAST_ELEMENTS if least_elements is None else least_elements
    fusible = [index for index in needed if index not in alone]
    readers: dict[int, list[int | None]] = {index: [] for index in needed}
    readers.update((index, [None]) for index in known)
    for index in needed:
        for read in program.nodes[index].inputs:
            readers[read].append(index)
    for index in wanted:
        readers[index].append(None)
    late: dict[int, Sort | Chain] = {**find_sorts(program, fusible, readers)}
    late.update(find_chains(program, [i for i in fusible if i not in late], readers))
    candidates = {i: _as_candidate(program.nodes[i]) for i in fusible if i not in late}
    nodes = {
        i: (node, node.inputs, node.elements * node.fold_length)
        for i, node in candidates.items()
        if node is not None
    }
    done = set(known)
    order: list[Unit] = []
    for index in needed:
        if index in done or (index in late and index != late[index].indices[-1]):
            continue
        unit: Fused | None = late.get(index)
        early: Sequence[int] = ()
        if unit is None and program.nodes[index].kind is Kind.REDUCE and index not in alone:
            unit = _find_reduction(program, index, readers[index], least_elements)
        if unit is None and index in nodes:
            unit = find_selection(program, index, readers, alone)
        if unit is None and index in nodes:
            unit, early = _find_group(program, nodes, index, done, least_elements)
        order += [*early, index if unit is None else unit]
        done.update(early, [index] if unit is None else unit.indices)
    return join_products(program, order, readers, alone, list_indices)


def group_alone(program: Program, index: int) -> Group | None:
    """Return the group of one map that runs by itself, if a kernel of its own computes it."""
    node = _as_candidate(program.nodes[index])
    if node is None or program.nodes[index].kind is not Kind.MAP:
        return None
    return _Growing(index, node).finish(_LEAST_ELEMENTS)


def list_indices(unit: Unit) -> tuple[int, ...]:
    """Return the indices of a unit's operators, ascending."""
    return (unit,) if isinstance(unit, int) else unit.indices


def _find_reduction(
    program: Program, index: int, readers: Sequence[int | None], least_elements: int
) -> Vertical | None:
    """Return the reduction with a kernel of its own that an operator begins, if it does.

    Args:
        program: the program.
        index: index of the operator.
        readers: what reads its output, None for someone outside.
        least_elements: elements that are worth a kernel.
    """
    node = program.nodes[index]
    if node.elements * node.fold_length < least_elements:
        return None
    stack = find_stack(node)
    if stack is None:
        return None
    if stack.lanes is None:
        return make_form(Vertical, (index,), (node,), stack)
    after = readers[0] if len(readers) == 1 else None
    if after is None or not is_fold_of(program.nodes[after], index, node):
        return None
    return make_form(Vertical, (index, after), (node, program.nodes[after]), stack)


def _as_candidate(node: Node) -> Node | None:
    """Return the map or the reduction that may be a member, if the node is one."""
    if node.kind is Kind.REDUCE:
        return node if as_folded(node) and node.function in EXPRESSIBLE else None
    if as_picked(node) or is_one_hot(node) or find_fusible(node):
        return node
    as_copy = as_fused_map(node)
    return as_copy if as_copy is not None and as_copy.function in EXPRESSIBLE else None


def _find_group(
    program: Program,
    nodes: Mapping[int, tuple[Node, Sequence[int], int]],
    first: int,
    done: Collection[int],
    least_elements: int,
) -> tuple[Group | None, Sequence[int]]:
    """Return the group that begins with a candidate, given what is there, if one is worth it.

    Args:
        program: the program.
        nodes: the candidates, what each of them reads, and its elements times its fold steps.
        first: index of the first member.
        done: the operators that come before.
        least_elements: elements that are worth a kernel.

    Returns:
        The group, and small operators that have to be there before it besides.
    """
    growing = _Growing(first, nodes[first][0])
    early: set[int] = set()
    near = [i for i in range(first + 1, first + _WINDOW) if i in nodes and i not in done]
    sizes = (size for node, _, size in (nodes[i] for i in near) if growing.may_have(node, size))
    if not growing.members or nodes[first][2] + sum(sizes) < least_elements:
        return None, ()
    for index in near:
        if index in early:
            continue
        node, inputs, _ = nodes[index]
        missing = [i for i in inputs if i not in growing.members and i not in done]
        before = _find_early(program, missing, growing.members, done)
        if before is not None and growing.add(index, node):
            early |= before
    found = growing.finish(least_elements)
    return found, sorted(early) if found else ()


def _find_early(
    program: Program, wanted: Sequence[int], members: Collection[int], done: Collection[int]
) -> set[int] | None:
    """Return the operators to compute first, if they are small and need no member of the group."""
    found: set[int] = set()
    waiting = list(wanted)
    while waiting:
        index = waiting.pop()
        node = program.nodes[index]
        if index in members or node.elements * node.fold_length > _SMALL_OPERATOR:
            return None
        found.add(index)
        if len(found) > _MAX_EARLY:
            return None
        waiting += [i for i in node.inputs if i not in done and i not in found]
    return found


class _Growing:
    """A group that is still growing.

    Args:
        first: index of its first member.
        node: that member.

    Attributes:
        members: the members so far by index.
    """

    def __init__(self, first: int, node: Node) -> None:
        self.members: dict[int, Member] = {}
        self._first = first
        self._columns: int | None = None
        self._segments = 1
        self._lanes: int | None = None
        folded = as_folded(node) if node.kind is Kind.REDUCE else None
        self._elements = folded.elements if folded else node.elements
        if node.kind is Kind.SCATTER:
            self._columns = node.shape[-1]
        self._cuts: set[int] = set()
        self.add(first, node)

    def may_have(self, node: Node, size: int) -> bool:
        """Whether a node of so many elements, times fold steps, could join: no larger map does."""
        return size <= self._elements or node.kind is Kind.REDUCE

    def add(self, index: int, node: Node) -> bool:
        """Let a node join if it fits and its operands are in the group or computed before it."""
        columns, segments = self._columns, self._segments
        folded = None
        if node.kind is Kind.GATHER:
            role = self._find_pick(node) or self._find_gather(node)
        elif node.kind is Kind.REDUCE:
            folded = as_folded(node)
            assert folded is not None
            role = self._find_fold(folded)
            if role is Role.LANES or (role is Role.FOLD and not self._is_of_lanes(folded)):
                columns, segments = folded.columns, folded.segments
        else:
            role = self._find_map(node)
        if role is None:
            return False
        cuts = self._cuts | find_cuts(role, node, columns)
        fits = is_nested(cuts) and self._are_gathers_in(columns, segments)
        if fits:
            self.members[index] = Member(index, node, role)
            self._cuts, self._columns, self._segments = cuts, columns, segments
            self._lanes = folded.lanes if folded and role is Role.LANES else self._lanes
        return fits

    def _get_producer(self, operand: Operand) -> Member | None:
        return self.members.get(operand.reference) if operand.origin is Origin.NODE else None

    def _find_map(self, node: Node) -> Role | None:
        if node.kind is Kind.SCATTER and (node.shape[-1], 1) != (self._columns, self._segments):
            return None
        if node.elements == self._elements:
            role = Role.FULL
        elif self._columns and node.elements == self._rows:
            role = Role.ROW
        else:
            return None
        return role if all(self._is_fit(o, node, role) for o in node.operands) else None

    def _is_fit(self, operand: Operand, node: Node, role: Role) -> bool:
        """Whether a map reads an operand as a kernel can give it."""
        producer = self._get_producer(operand)
        if producer is None:
            return True
        if producer.role is Role.LANES or (producer.role is Role.FULL and role is not Role.FULL):
            return False
        if producer.role is not Role.FULL and role is Role.FULL:
            is_near = self._segments == 1 or self._elements <= _MOST_IN_SEGMENTS * self._rows
            return is_near and is_broadcast(operand, node.shape, self._columns or 1, self._rows)
        return is_identity(operand, node.shape)

    @property
    def _rows(self) -> int:
        """The number of rows."""
        return self._elements // (self._segments * (self._columns or 1))

    def _find_pick(self, node: Node) -> Role | None:
        picked = as_picked(node)
        if picked is None or self._segments > 1:
            return None
        producer = self._get_producer(picked.operand)
        is_full = producer is not None and producer.role is Role.FULL
        if not is_full or (picked.columns, picked.elements) != (self._columns, self._elements):
            return None
        is_whole = is_identity(picked.operand, picked.sizes)
        fits = is_whole and self._is_fit(node.operands[1], node, Role.PICK)
        return Role.PICK if fits else None

    def _find_gather(self, node: Node) -> Role | None:
        """Return the role of a gather whose data and indices are there before the group."""
        found = find_fusible(node)
        is_inside = any(self._get_producer(operand) for operand in node.operands)
        if found is None or is_inside or node.elements != self._elements:
            return None
        is_fit = self._segments == 1 and is_in_columns(node, self._columns)
        return Role.FULL if is_fit else None

    def _are_gathers_in(self, columns: int | None, segments: int) -> bool:
        """Whether the gathers so far may be computed along such columns, of one segment."""
        nodes = (member.node for member in self.members.values() if member.role is Role.FULL)
        gathers = [n for n in nodes if n.kind is Kind.GATHER]
        return all(segments == 1 and is_in_columns(n, columns) for n in gathers)

    def _is_of_lanes(self, folded: Folded) -> bool:
        producer = self._get_producer(folded.operand)
        return producer is not None and producer.role is Role.LANES

    def _find_fold(self, folded: Folded) -> Role | None:
        producer = self._get_producer(folded.operand)
        if producer is not None and not is_identity(folded.operand, folded.sizes):
            return None
        if producer is not None and producer.role is Role.LANES:
            is_whole = folded.lanes is None and folded.columns == self._lanes
            return Role.FOLD if is_whole and folded.elements == producer.node.elements else None
        if folded.elements != self._elements or not self._is_matrix(folded, producer):
            return None
        if folded.lanes is None:
            return Role.FOLD
        return Role.LANES if self._lanes in {None, folded.lanes} else None

    def _is_matrix(self, folded: Folded, producer: Member | None) -> bool:
        """Whether the rows that are folded may be those of the group."""
        if self._columns is not None or producer is not None:
            is_full = producer is None or producer.role is Role.FULL
            mine, rows = (self._columns, self._segments), (folded.columns, folded.segments)
            return is_full and (self._columns is None or mine == rows)
        has_many_rows = folded.elements >= FEW_ROWS * folded.columns
        is_small = folded.elements <= SMALL_ELEMENTS
        is_kept = folded.columns <= _MAX_COLUMNS and (has_many_rows or is_small)
        return not self.members and (folded.lanes is not None or is_kept)

    def finish(self, least_elements: int) -> Group | None:
        """Return the members that are connected with the first by reading one another."""
        inputs = {
            index: [o.reference for o in member.node.operands if self._get_producer(o)]
            for index, member in self.members.items()
        }
        connected = _find_connected(inputs, self._first)
        members = tuple(self.members[index] for index in connected[:_MAX_MEMBERS])
        is_plain = all(m.role is Role.FULL and m.node.kind in _PLAIN for m in members)
        columns = None if is_plain else self._columns
        cuts = [find_cuts(m.role, m.node, columns) for m in members]
        elements = sum(m.node.elements * m.node.fold_length for m in members)
        is_alone = len(members) == 1 and _is_better_alone(members[0].node)
        is_worth = elements >= least_elements and not is_alone
        segments = 1 if is_plain else self._segments
        if not is_worth:
            return None
        return make_form(Group, members, columns, frozenset().union(*cuts), segments)


def _is_better_alone(node: Node) -> bool:
    """Whether an operator that has no neighbours has a kernel of its own that is faster."""
    return node.kind is Kind.GATHER or is_turned_copy(node)


def _find_connected(inputs: Mapping[int, Sequence[int]], first: int) -> list[int]:
    """Return what is connected with `first` by reading one another, ascending."""
    neighbours: dict[int, set[int]] = {index: set(read) for index, read in inputs.items()}
    for index, read in inputs.items():
        for other in read:
            neighbours[other].add(index)
    found, waiting = {first}, [first]
    while waiting:
        new = neighbours[waiting.pop()] - found
        found |= new
        waiting += sorted(new)
    return sorted(found)
