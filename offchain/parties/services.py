"""Services of receipts on a chain: deployed for an arithmetic, or found at an address."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from eth_utils.address import is_address, to_checksum_address

from moot.contracts.deployment import deploy_service
from moot.contracts.model.types import NOBODY, Address
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import ARITHMETICS, find_arithmetic
from moot.offchain.chain import Chain
from moot.offchain.chain.accounts.keystore import KeyAccount
from moot.offchain.disputes.referee.code import SERVICE, compare_codes
from moot.offchain.errors import UsageError
from moot.offchain.parties.context import open_keys, opened_chain
from moot.offchain.parties.events import Tell
from moot.offchain.parties.settings import Settings
from moot.offchain.receipts.service import ChainService


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """A service, and the account that uses it.

    Attributes:
        service: the service.
        key: the account's key; None where nothing is signed.
    """

    service: ChainService
    key: KeyAccount | None

    @property
    def address(self) -> Address:
        """The account, checksummed; nobody's where nothing is signed."""
        return str(to_checksum_address(self.key.address)) if self.key else NOBODY


def deploy(settings: Settings, tell: Tell) -> tuple[Address, Address]:
    """Deploy a service for programs of the settings' arithmetic.

    Returns:
        The addresses of the service, and of the contract in which receipts are challenged.

    Raises:
        UsageError: a setting is missing or wrong, or no contract decides the arithmetic.
        ChainError: the chain refuses, or fails.
    """
    arithmetic = find_arithmetic(settings.arithmetic)
    if not arithmetic.ends_on_chain:
        raise UsageError(
            f"a receipt's challenge ends with a scalar, and no contract computes those of "
            f"{arithmetic.name}; choose another --arithmetic"
        )
    settings.require("chain", "key")
    signers = open_keys(settings, tell)
    with opened_chain(settings, tell, signers) as chain:
        challenges, service = deploy_service(chain, signers[0].address, arithmetic)
    return service.address, challenges.address


@contextmanager
def opened_service(settings: Settings, tell: Tell, *, signs: bool) -> Iterator[ServiceContext]:
    """Open the chain and the service of some settings; who only looks needs no key.

    Raises:
        UsageError: a setting is missing or wrong, or there is no service at that address.
        KeystoreError: the key can't be opened.
        ChainError: the chain fails.
    """
    settings.require("chain", "service", *(("key",) if signs else ()))
    if not is_address(settings.service):
        raise UsageError(
            f"the service {settings.service!r:.60} is no address; give 0x and 40 digits"
        )
    signers = open_keys(settings, tell) if signs else ()
    with opened_chain(settings, tell, signers) as chain:
        service = ChainService(chain, settings.service)
        require_own_code(chain, settings.service)
        yield ServiceContext(service, signers[0] if signs else None)


def require_own_code(chain: Chain, service: Address) -> Arithmetic:
    """Return the arithmetic of a service; refuse one of other code, whoever asks for money there.

    Raises:
        UsageError: it, or a contract that it asks, has other code than this version's.
        ChainError: the chain fails.
    """
    for arithmetic in ARITHMETICS.values():
        found = compare_codes(chain, service, arithmetic, SERVICE)
        if arithmetic.ends_on_chain and all(problem is None for _, problem in found):
            return arithmetic
    raise UsageError(
        f"the contract at {service} is no service of this version; choose another --service, or "
        "make one by `moot service deploy`"
    )
