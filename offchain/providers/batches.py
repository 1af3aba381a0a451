"""The batches of a job: as a store has them, or made of a dataset by a rule, one at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.columns import ArrayColumn, Column
from moot.offchain.datastore.orders import Order
from moot.offchain.datastore.rules import Rule, Take, Way
from moot.offchain.datastore.store import DataStore
from moot.offchain.errors import CommitmentError, DamagedFile, StoreError, UsageError
from moot.offchain.programs.graph import Slot

AT_STEP = "step"
"""What stands behind the name of a tensor of which a step takes its own row."""


class StoredBatches:
    """The batches of a job, as a store's folder has them: called with a step, it reads its batch.

    Args:
        store: the store.
        slots: the slots of the batch.
        roots: the roots of all batches' tensors.

    Attributes:
        reopen: opens the folder with a place from which what is damaged comes once more, if any.
    """

    def __init__(self, store: DataStore, slots: Sequence[Slot], roots: Sequence[Digest]) -> None:
        self._store, self.slots, self.roots = store, slots, roots
        self.reopen: Callable[[], DataStore] | None = None

    def __call__(self, step: int) -> list[Array]:
        """Return the batch of a step."""
        first = step * len(self.slots)
        roots = self.roots[first : first + len(self.slots)]
        try:
            return [*map(self._store.get_tensor, roots, self.slots)]
        except DamagedFile:
            if self.reopen is None:
                raise
        return [*map(self.reopen().get_tensor, roots, self.slots)]


@dataclass(frozen=True)
class RuledBatches:
    """The batches that a rule makes: called with a step, it makes its batch.

    Attributes:
        rule: the rule.
        slots: the slots of the batch.
        dataset: the roots of all tensors of the dataset.
        columns: those of the tensors that are at hand, by their places; all that are taken.
        roots: the roots of all batches' tensors, if they are known: what is made is verified.
    """

    rule: Rule
    slots: Sequence[Slot]
    dataset: Sequence[Digest]
    columns: Mapping[int, Column]
    roots: Sequence[Digest] = ()

    def __call__(self, step: int) -> list[Array]:
        """Return the batch of a step.

        Raises:
            StoreError: the disk fails, or what is made is not what it was.
        """
        batch = [
            self._make(slot, take, step)
            for slot, take in zip(self.slots, self.rule.takes, strict=True)
        ]
        first = step * len(batch)
        for place, root in enumerate(self.roots[first : first + len(batch)]):
            if compute_tensor_root(batch[place]) != root:
                tensor = self.dataset[self.rule.takes[place].tensor].hex()
                raise StoreError(
                    f"tensors/{tensor} is damaged, or was exchanged: the batch of step {step} that "
                    "is made of it is another one; delete it and resume"
                )
        return batch

    def _make(self, slot: Slot, take: Take, step: int) -> Array:
        """Return what a slot gets."""
        rule, column = self.rule, self.columns[take.tensor]
        if take.way is Way.STEP:
            return column.read(np.array([take.first + step])).reshape(slot.shape)
        if not slot.elements:  # it may have any number of rows
            return np.empty(slot.shape, NUMPY_TYPES[slot.dtype])
        first = rule.first_place + step * rule.step_rows + take.first
        return column.read(rule.order.pick(first, slot.shape[0]))

    def add_rows(self, slot: Slot, contents: Sequence[Array], place: int) -> "RuledBatches":
        """Return batches with one tensor more, at a place, which is given for each step."""
        column = ArrayColumn(np.stack([*contents]))
        dataset = [*self.dataset, column.commitment.root]
        added = Take(len(self.dataset), len(contents), Way.STEP)
        rule = replace(
            self.rule,
            dataset=compute_state_root(dataset),
            tensors=len(dataset),
            takes=(*self.rule.takes[:place], added),
        )
        columns = {**self.columns, len(self.dataset): column}
        return RuledBatches(rule, (*self.slots[:place], slot), dataset, columns)


@dataclass(frozen=True)
class Choice:
    """A user's choice of batches from a dataset.

    Attributes:
        columns: the dataset, whose tensors are in the order of this mapping.
        takes: by the name of an input, what it takes: a tensor, of which it gets the first of the
            step's rows; `tensor@row`, which begins at that row of the step; `tensor@step`, a row of
            a step. An input without one takes the tensor of its name; inputs `name.0`, `name.1` and
            so on, if there is none, share the step's rows of the tensor `name`.
        seed: shuffles the rows, each epoch anew; they stand as they are without one.
        listed: numbers of rows, in their order, which begins anew where it ends.
        drop_last: whether the last rows of an epoch are left out that do not fill a step.
        first_step: steps of the same order that are another job's.
    """

    columns: Mapping[str, Column]
    takes: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    listed: Sequence[int] | None = None
    drop_last: bool = False
    first_step: int = 0

    def make_batches(self, slots: Sequence[Slot], steps: int) -> RuledBatches:
        """Return the batches that are chosen for so many steps.

        Raises:
            UsageError: inputs and tensors do not fit each other.
        """
        named = {slot.name for slot in slots}
        for name in self.takes:
            if name not in named:
                raise UsageError.unknown("input", name, named)
        places = {name: place for place, name in enumerate(self.columns)}
        takes = [self._choose(slot, places) for slot in slots]
        by_rows = [it for it in zip(slots, takes, strict=True) if it[1].way is Way.ROWS]
        step_rows = max([it.first + slot.shape[0] for slot, it in by_rows], default=0)
        counts = {it.rows for _, it in by_rows}
        if len(counts) > 1:
            raise UsageError(f"the tensors have {sorted(counts)} rows; give tensors of as many")
        try:
            order = self._make_order(max(counts, default=1), step_rows)
            dataset = [column.commitment.root for column in self.columns.values()]
            first = self.first_step * step_rows
            rule = Rule(
                compute_state_root(dataset),
                len(dataset),
                steps,
                step_rows,
                first,
                order,
                tuple(takes),
            )
            shapes = rule.check(slots, steps)
        except CommitmentError as error:
            raise UsageError(f"no batches can be made of the dataset: {error}") from error
        columns = dict(enumerate(self.columns.values()))
        for place, wanted in shapes.items():
            found = columns[place].shape
            if found != wanted:
                name = [*self.columns][place]
                raise UsageError(
                    f"{name} in the dataset is {found.dtype.name} {found.shape}, and "
                    f"{wanted.dtype.name} {wanted.shape} is wanted"
                )
        return RuledBatches(rule, slots, dataset, columns)

    def _choose(self, slot: Slot, places: Mapping[str, int]) -> Take:
        """Return what a slot takes."""
        base, _, number = slot.name.rpartition(".")
        given = self.takes.get(slot.name)
        if given is not None:
            name, _, what = given.partition("@")
        elif slot.name not in places and base in places and number.isdecimal() and slot.shape:
            name, what = base, str(int(number) * slot.shape[0])
        else:
            name, what = slot.name, ""
        if name not in places:
            raise UsageError.unknown(f"tensor for the input {slot.name},", name, places, "tensors")
        shape = self.columns[name].shape.shape
        if not shape:
            raise UsageError(f"{name} in the dataset is one number; it has no rows to take")
        if what == AT_STEP:
            return Take(places[name], shape[0], Way.STEP, self.first_step)
        if what and not what.isdecimal():
            raise UsageError(f"{given} is no choice; write TENSOR, TENSOR@ROW or TENSOR@{AT_STEP}")
        if not slot.shape:
            raise UsageError(f"{slot.name} is one number; let it take {name}@{AT_STEP}")
        return Take(places[name], shape[0], Way.ROWS, int(what or 0))

    def _make_order(self, rows: int, step_rows: int) -> Order:
        if self.listed is not None:
            if self.seed is not None or self.drop_last:
                raise UsageError("a list of rows is neither shuffled nor shortened; leave that out")
            return Order.listing(rows, self.listed)
        epoch = rows
        if self.drop_last and step_rows:
            epoch -= rows % step_rows
            if not epoch:
                raise UsageError(f"{rows} rows do not fill a step of {step_rows}")
        if self.seed is None:
            return Order.as_they_stand(rows, epoch)
        return Order.shuffled(rows, self.seed, epoch)
