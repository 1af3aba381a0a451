"""Every error that Moot raises on purpose, in one tree.

    MootError
    ├── UsageError                  the user asked for something that does not exist
    │   ├── BondExhausted           a bond does not cover one more receipt
    │   ├── CannotWrite             a file that the user has named can't be written
    │   └── CannotTranslate         another library's object means what no recipe can say
    ├── CaptureError                the model does something a program cannot express
    │   └── CaptureFault            our own code fails where it captures a model
    ├── ProgramError                a program is malformed or breaks a rule
    ├── BrokenPrecondition          a plan would ask more of a kernel than it computes
    ├── WrongComputation            executor and definition differ on an element of a run
    ├── CommitmentError             a proof or an archive does not fit its root
    ├── StoreError                  a store of data cannot be read or written
    │   ├── DamagedFile             a file of one's own is not what was written
    │   └── ObjectError             something is wrong about one object of a store
    │       ├── NotInStore          a store has no object of this root
    │       ├── StoreUnavailable    a store does not answer, stops in the middle, or is too slow
    │       └── WrongContent        a store serves something else than the root says
    ├── KeystoreError               a keystore file cannot be opened
    ├── UnsupportedMachine          the processor lacks what the arithmetic is made of
    ├── DeviceError                 a device or its driver is missing, too old, or fails
    │   └── DeviceLost              a device failed in the middle of a run, and its memory is gone
    ├── UnsuitableEngine            an engine of binary64 errs by more than it may
    ├── UnsuitableEnvironment       a thread rounds otherwise or flushes subnormal numbers
    ├── NotEnoughMemory             a run does not fit into memory
    ├── ChainError                  the chain or the way to it failed
    │   ├── ChainUnavailable        the node does not answer
    │   ├── ChainIdChanged          the node serves another chain than before
    │   ├── NodeError               the node answers a question with an error
    │   ├── CompileError            a contract does not compile
    │   ├── AccountBusy             another process sends with this account
    │   ├── NonceTaken              another transaction has the nonce of one of ours
    │   ├── BadCall                 a call does not fit the contract's ABI
    │   ├── TransactionRefused      the node did not take the transaction
    │   ├── TransactionLost         the node took the transaction, but it is in no block
    │   └── Reverted                the contract rejected the call
    ├── ReplicationError            a process that trains under a profile failed
    ├── ParallelError               a batch cannot be shared out, or a worker failed
    ├── LogError                    a log of roundings is not that of the step
    │   └── WrongLog                a step's log is malformed, another step's, or turns too much
    ├── RequestRefused              an endpoint of a model does not answer a request
    ├── NotChallenged               no service says that a job is about a receipt
    ├── ReceiptError                a receipt is malformed, or not signed by whom it names
    ├── RefereeError                the Python model of the referee rejected the call
    └── VerifierError               the bounded verifier gives no verdict
        ├── CostBoundExceeded       an operator costs more than the job allows
        ├── LimitReached            the recomputation took more than its cost allows for
        ├── UnprovenEvidence        what was handed over is not what both sides agreed on
        └── WrongOperand            an operand is not the one that both sides agreed on

A message says what is wrong and what to do about it, on one line. What a caller may want to
act on is in typed fields beside it. Anything else that is raised is a bug.
"""

# ruff: noqa: N818 - the classes are named for what went wrong; the tree says that they are errors

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

MANY = 24
"""Choices above which an error does not list all of them."""


def suggest(name: str, choices: Iterable[str], plural: str, lister: str = "") -> str:
    """Return the advice for an unknown name: the closest choice, or else all of them.

    Capitals and small letters are close to each other.
    It is meant to follow the statement of the problem: `f"unknown key {name!r}; {advice}"`; the
    plural says what the choices are, such as `keys`; the lister is a command that lists them.
    """
    known = sorted(choices)
    folded = {choice.casefold(): choice for choice in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    if len(known) > MANY:
        some = f"{known[0]!r} and {known[-1]!r} among them"
        listed = f"; `{lister}` lists them" if lister else f", {some}"
        return f"there are {len(known):,} {plural} to choose from{listed}"
    if known:
        return f"choose one of {', '.join(known)}"
    return f"there are no {plural} to choose from"


def _revive(kind: "type[MootError]", args: tuple[Any, ...], fields: dict[str, Any]) -> "MootError":
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class MootError(Exception):
    """The base of every error that Moot raises on purpose.

    Attributes:
        message: what is wrong, and what to do about it, on one line.

    Example:
        >>> import moot
        >>> issubclass(moot.CaptureError, moot.MootError)
        True
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(
        self,
    ) -> tuple[Callable[..., "MootError"], tuple[type[Self], tuple[Any, ...], dict[str, Any]]]:
        # Runs in other processes hand their errors back pickled; the default would call
        # __init__ with the message alone, which the classes with more fields do not take.
        return _revive, (type(self), self.args, self.__dict__)


class UsageError(MootError):
    """The user asked for something that does not exist or makes no sense.

    Example:
        >>> import moot
        >>> try:
        ...     moot.simulate("baselin")
        ... except moot.UsageError as error:
        ...     "did you mean 'baseline'" in error.message
        True
    """

    @classmethod
    def unknown(
        cls,
        subject: str,
        name: str,
        choices: Iterable[str],
        plural: str | None = None,
        lister: str = "",
    ) -> Self:
        """Make the error for a name that is not among the choices, with a suggestion.

        The plural of the subject is that of its first word, with an s, if it is not given.
        """
        several = plural or f"{subject.partition(' ')[0]}s"
        return cls(f"unknown {subject} {name!r}; {suggest(name, choices, several, lister)}")


class BondExhausted(UsageError):
    """The receipts of a provider that have not ended leave too little of its bond for one more."""


class NotChallenged(MootError):
    """A job names a provider, and no service says that it is about a receipt of it."""


class CannotWrite(UsageError):
    """The operating system refuses to write a file that the user has named."""


class CannotTranslate(UsageError):
    """A checkpoint, a Trainer or a training loop means something that no recipe can say."""

    def __init__(self, subject: str, problem: str, advice: str) -> None:
        """Name what was given, what of it has no meaning here, and what to do instead."""
        super().__init__(f"{subject}: {problem}; {advice}")
        self.subject = subject
        self.problem = problem
        self.advice = advice


class CaptureError(MootError):
    """The model does something that a program cannot express.

    Attributes:
        operator: the ATen operator, if one is to blame.
        module: the path of the module in the model.
        source_line: the line of the user's file, `file.py:12`.

    Example:
        >>> import moot, torch
        >>> recipe = moot.InferenceRecipe(
        ...     torch.nn.Identity(),
        ...     forward=lambda model, x: torch.linalg.eigvals(model(x)).real,
        ...     batch=lambda step: (torch.eye(2),),
        ... )
        >>> try:
        ...     moot.capture(recipe)
        ... except moot.CaptureError as error:
        ...     error.operator is not None
        True
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str | None = None,
        module: str | None = None,
        source_line: str | None = None,
    ) -> None:
        """Name the ATen operator, the module's path and the user's line, `file.py:12`."""
        super().__init__(message)
        self.operator = operator
        self.module = module
        self.source_line = source_line


class CaptureFault(CaptureError):
    """Our own code fails where it captures a model: a fault of Moot, whose cause says how."""


class ProgramError(MootError):
    """A program is malformed or breaks a rule of the intermediate representation."""


class BrokenPrecondition(MootError):
    """A plan would ask more of a kernel than it computes."""

    def __init__(self, form: str, precondition: str, sentence: str) -> None:
        """Name the form, its precondition, and what would have to hold."""
        super().__init__(f"no kernel computes this {form}: {sentence}")
        self.form = form
        self.precondition = precondition


class WrongComputation(MootError):
    """The executor has computed an element of a run otherwise than the definition says."""


class CommitmentError(MootError):
    """A proof, an opening or an archive does not fit the root that it claims."""


class StoreError(MootError):
    """A store of data, on disk or elsewhere, cannot be read or written."""


class DamagedFile(StoreError):
    """A file of one's own store is not what was written there; `path` is that file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is damaged ({problem}); delete it and resume, so that it is made again"
        )
        self.path = path
        self.problem = problem


class ObjectError(StoreError):
    """Something about one object of a store: its address and the object's name are in the line."""

    advice = ""

    def __init__(self, url: str, name: str, problem: str) -> None:
        """Name the store, the object (its kind and its root), and what is wrong."""
        super().__init__(f"{name} at {url}: {problem}; {self.advice}")
        self.url = url
        self.name = name
        self.problem = problem


class NotInStore(ObjectError):
    """A store has no object of this root."""

    advice = "ask its owner to publish it, or use another store"


class StoreUnavailable(ObjectError):
    """A store does not answer, stops in the middle, or is too slow; what has come is kept."""

    advice = "try again, which goes on from what has come, or use another store"


class WrongContent(ObjectError):
    """A store serves something else than what the root says: it is not to be trusted."""

    advice = "use another store"


class KeystoreError(MootError):
    """A keystore file cannot be opened."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(f"the keystore {path} cannot be opened: {problem}")
        self.path = path
        self.problem = problem


class UnsupportedMachine(MootError):
    """The processor lacks an instruction that the arithmetic is made of."""

    def __init__(self, architecture: str, missing: str) -> None:
        super().__init__(
            f"this processor ({architecture}) has no {missing}, and emulating it would be too slow "
            "to be of use; run on one that has: x86-64 since 2013, or any aarch64"
        )
        self.architecture = architecture
        self.missing = missing


class DeviceError(MootError):
    """A device, or its driver, is not here, is too old, or does not do what it is asked to."""


class DeviceLost(DeviceError):
    """A device failed in the middle of a run: what it had in its memory is gone."""


class UnsuitableEngine(MootError):
    """An engine of binary64 errs by more than it may, or does not return what it should."""


class UnsuitableEnvironment(MootError, ImportError):
    """A thread rounds otherwise than to nearest, or flushes subnormal numbers to zero.

    It is an `ImportError` too: Python itself would round the literals of our modules otherwise, and
    keep their wrong values on disk.
    """


class NotEnoughMemory(MootError):
    """A run does not fit into memory, so it was not begun."""

    def __init__(self, needed_bytes: int, available_bytes: int) -> None:
        super().__init__(
            f"this program needs {needed_bytes / 1e9:.2f} GB of memory for a step, and "
            f"{available_bytes / 1e9:.2f} GB are available; free some, or make the batch smaller"
        )
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes


class ChainError(MootError):
    """The chain, or the way to it, failed."""


class ChainUnavailable(ChainError):
    """The node at this address does not answer, or not as a node does."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"no chain at {url}: {problem}; start the node or correct the address")
        self.url = url
        self.problem = problem


class ChainIdChanged(ChainError):
    """The node serves another chain than the one that we were playing on."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"the chain id is {found}, not {expected}, so nothing was sent; "
            f"connect to a node of chain {expected}"
        )
        self.expected = expected
        self.found = found


class NodeError(ChainError):
    """The node answers a question with an error."""

    def __init__(self, method: str, problem: str, data: object = None) -> None:
        """Name the JSON-RPC method, and give the node's message and its data as they came."""
        super().__init__(f"the node refused {method}: {problem}")
        self.method = method
        self.problem = problem
        self.data = data


class CompileError(ChainError):
    """A contract does not compile."""

    def __init__(self, problem: str, *, file: str, line: int | None = None) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {problem}")
        self.problem = problem
        self.file = file
        self.line = line


class AccountBusy(ChainError):
    """Another process of this machine sends with the same account on the same chain."""

    def __init__(self, address: str, chain_id: int, holder: str) -> None:
        by = f" (process {holder})" if holder else ""
        super().__init__(
            f"another program{by} sends with account {address} on chain {chain_id}; "
            "stop it, or give this one an account of its own"
        )
        self.address = address
        self.chain_id = chain_id
        self.holder = holder


class NonceTaken(ChainError):
    """The chain has another transaction under the nonce of one of ours, which never gets in."""

    def __init__(self, call: str, address: str, nonce: int) -> None:
        super().__init__(
            f"{call} got no block: the nonce {nonce} of account {address} was used by a "
            "transaction from elsewhere; use the account in one place only"
        )
        self.call = call
        self.address = address
        self.nonce = nonce


class BadCall(ChainError):
    """A call, or what came back from it, does not fit the contract's ABI."""

    def __init__(self, call: str, problem: str) -> None:
        super().__init__(f"{call} does not fit the contract: {problem}")
        self.call = call
        self.problem = problem


class TransactionRefused(ChainError):
    """The node did not take the transaction, so it cost nothing and changed nothing."""

    def __init__(self, call: str, problem: str) -> None:
        super().__init__(f"the chain did not take {call}: {problem}")
        self.call = call
        self.problem = problem


class TransactionLost(ChainError):
    """The node took the transaction, but it is in no block, and may still get into one."""

    def __init__(self, call: str, transaction_hash: str, waited_seconds: float) -> None:
        super().__init__(
            f"{call} is in no block after {waited_seconds:g} s (transaction {transaction_hash}); "
            "moves are idempotent: send it again"
        )
        self.call = call
        self.transaction_hash = transaction_hash
        self.waited_seconds = waited_seconds


class Reverted(ChainError):
    """The contract rejected the call, so nothing changed but the gas that was spent."""

    def __init__(self, reason: str, call: str, *, gas_used: int = 0, price_wei: int = 0) -> None:
        """Give the decoded reason, and the gas that it cost (0 for a view), with its price."""
        super().__init__(f"{call} reverted: {reason}")
        self.reason = reason
        self.call = call
        self.gas_used = gas_used
        self.fee_wei = gas_used * price_wei


class ReceiptError(MootError):
    """A receipt is malformed, or not signed by the provider that it names."""


class RefereeError(MootError):
    """The Python model of the referee rejected the call, so nothing changed."""

    def __init__(self, reason: str) -> None:
        """Give the reason in the very words of the contract's revert string."""
        super().__init__(reason)
        self.reason = reason


class RequestRefused(MootError):
    """An endpoint of a model does not answer a request, and says why in its reply.

    Attributes:
        parameter: the parameter of the request that is to blame; None if it is none.
        status: the HTTP status of the reply.
    """

    def __init__(self, message: str, parameter: str | None = None, status: int = 400) -> None:
        """Say what to ask instead."""
        super().__init__(message)
        self.parameter, self.status = parameter, status


class ReplicationError(MootError):
    """A process that trains under a profile failed."""

    def __init__(self, profile: str, problem: str) -> None:
        """Name the profile, and the last thing that its process said."""
        super().__init__(f"the process of profile {profile} ended: {problem}")
        self.profile = profile
        self.problem = problem


class ParallelError(MootError):
    """A batch cannot be shared out among workers, or one of them failed."""


class LogError(MootError):
    """A log of roundings is malformed, or not that of the step."""


class WrongLog(LogError):
    """A step's log is malformed, is another program's or step's, or turns what it may not."""

    def __init__(self, problem: str, step: int) -> None:
        """Say what is wrong with the log of a step."""
        super().__init__(f"the log of step {step} is not to be used: {problem}; ask for it again")
        self.problem = problem
        self.step = step


class VerifierError(MootError):
    """The bounded verifier gives no verdict."""


class CostBoundExceeded(VerifierError):
    """Checking an operator costs more than the job allows, so it was not begun."""

    def __init__(self, *, resource: str, needed: int, bound: int) -> None:
        """Name the bounded resource, `operations` or `bytes`, in whose units both numbers are."""
        super().__init__(
            f"the operator needs {needed:,} {resource}, above the bound of {bound:,}; "
            "raise the bound of the job or let it end in a scalar operation"
        )
        self.resource = resource
        self.needed = needed
        self.bound = bound


class LimitReached(VerifierError):
    """The recomputation took more memory or time than its cost allows for, so it was stopped."""

    def __init__(self, resource: str, limit: float) -> None:
        """Name the resource, `bytes` or `seconds`, in whose units the limit is."""
        super().__init__(
            f"the recomputation needs more than {limit:,} {resource}; "
            "raise the bound of the job or ask on a machine with less to do"
        )
        self.resource = resource
        self.limit = limit


class UnprovenEvidence(VerifierError):
    """What a side has handed over is not proven against what both sides agreed on."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} that was handed over is not the agreed one; ask again")


class WrongOperand(VerifierError):
    """An operand that was handed to the verifier is not the one that both sides agreed on."""

    def __init__(self, operand: int, problem: str) -> None:
        super().__init__(f"operand {operand} {problem}; get it from whoever has the agreed tensor")
        self.operand = operand
        self.problem = problem
