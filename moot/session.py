"""The preparation of a dispute from its setting: capture, run the providers, open the chain.

What is done for the first time on a machine is done at once where it can be: the contracts are
deployed while memory for the runs is touched.
"""

import time
from contextlib import ExitStack
from pathlib import Path

from moot.disputing import Dispute, open_referee, seat
from moot.known_memory import keep_need, recall_need
from moot.offchain.native.memory import touching
from moot.offchain.providers.agreement import make_task, post_logs
from moot.offchain.providers.lineup import Report, make_runs
from moot.offchain.providers.setting import (
    Setting,
    check_setting,
    choose_leaf,
    describe_example,
    load,
)


def prepare(
    setting: Setting, directory: Path, report: Report, *, is_durable: bool = True
) -> Dispute:
    """Do everything that comes before the first transaction's move.

    Args:
        setting: what the dispute is about.
        directory: where the providers keep their stores.
        report: told of progress.
        is_durable: whether the stores outlive this process, and so have to outlive a failure.

    Raises:
        UsageError: the setting is impossible.
        CaptureError: the model does something that a program cannot express.
    """
    from moot.offchain.frontend.tracing import count_state_bytes  # noqa: PLC0415 - imports torch

    check_setting(setting)
    example = describe_example(setting) if setting.trust_capture else None
    need = recall_need(example) if example is not None else 0
    with ExitStack() as meanwhile:
        meanwhile.enter_context(touching(need))
        referee = open_referee(setting.chain, setting.arithmetic)
        report("capture", 0, 1)
        recipe = load(setting)
        if setting.trust_capture and not need:
            # A part, so that capture takes less than a run; without trust it runs the step itself.
            meanwhile.enter_context(touching(count_state_bytes(recipe) * 3 // 4))
        setting, task = post_logs(setting, make_task(setting, recipe=recipe))
    del recipe  # whose weights take memory
    report("capture", 1, 1)
    started = time.perf_counter()
    runs = make_runs(setting, task, directory, report, is_durable=is_durable)
    run_seconds = time.perf_counter() - started
    if example is not None:
        keep_need(example, task.preparation.replacing.needed_bytes)
    leaf = choose_leaf(setting.leaf, setting.arithmetic)
    game = seat(task, runs, referee, leaf, setting.bond_wei, setting.seed)
    return Dispute(game, referee, runs, run_seconds, is_compared=not setting.trust_capture)
