"""Interop: recipes made of what other libraries have, and the way back into their models.

`from_pretrained` reads a checkpoint folder, `from_trainer` a `transformers.Trainer`, `from_loop`
the parts of a plain training loop; `to_state_dict` gives what `load_state_dict` takes. Nothing is
ever downloaded, unpickled, or run that came with a checkpoint.
"""

from moot.offchain.frontend.interop.loops import from_loop
from moot.offchain.frontend.interop.pretrained import from_pretrained
from moot.offchain.frontend.interop.trainers import from_trainer
from moot.offchain.frontend.interop.weights import to_state_dict

__all__ = ["from_loop", "from_pretrained", "from_trainer", "to_state_dict"]
